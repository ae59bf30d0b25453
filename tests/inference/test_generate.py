"""Writing with a checkpoint: beam search, files in and out, what is refused."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from made_text_run import TOKENIZER, make_text_run

import vitzoo
from vitzoo.cli.entry import main
from vitzoo.data.text.tokenizers.characters import CharacterTokenizer
from vitzoo.data.text.user_texts import gather_texts
from vitzoo.errors import UserError
from vitzoo.inference.generator import Generator
from vitzoo.inference.predict import Predictor
from vitzoo.weights.load import load

PROMPTS = ["ab", "a longer prompt", "x"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name in ("gpt", "t5"):
        make_text_run(folder / name, name, "none")
    return folder


@pytest.fixture(scope="module", params=["gpt", pytest.param("t5", marks=pytest.mark.slow)])
def generator(request, runs):
    return Generator(runs / request.param)


DRAWN = {"top_k": 20, "top_p": 0.98, "temperature": 1.3}


@pytest.mark.gate
def test_a_prompt_is_answered_alike_whatever_stands_with_it_and_one_given_twice_in_two_ways(generator):
    how = DRAWN | {"max_new_tokens": 8, "seed": 3}
    first, second, third = PROMPTS
    together = generator([first, second, first], **how)
    assert together[0].text != together[2].text
    others = generator([third, first, second], **how)
    assert others[1:] == together[:2]
    assert generator([second, first, first], **how) == [together[index] for index in (1, 0, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("how", [DRAWN, {"temperature": 1.0}, {"top_k": 5}, {"top_p": 0.9}], ids=str)
def test_a_prompt_is_answered_alike_alone_and_with_others(generator, how):
    how = how | {"max_new_tokens": 8, "seed": 3}
    together = generator(PROMPTS, **how)
    assert [generator([prompt], **how)[0] for prompt in PROMPTS] == together
    assert generator(PROMPTS[::-1] + PROMPTS, **how)[:3] == together[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt", "t5"])
def test_the_command_and_python_draw_alike_for_a_prompt_alone_and_with_others(runs, name, capsys):
    how = {"top_k": 20, "temperature": 1.3, "seed": 5, "max_new_tokens": 8}
    together = vitzoo.generate(runs / name, [*PROMPTS, PROMPTS[0], "y" * 40], **how)  # which makes the batch wider
    assert vitzoo.generate(runs / name, PROMPTS[2], **how) == [together[2]]
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in how.items()]
    asked = [flag for prompt in (PROMPTS[1], PROMPTS[0], PROMPTS[0]) for flag in ("--prompt", prompt)]
    assert main(["generate", "--checkpoint", str(runs / name), *asked, *flags, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out.splitlines()[-1])["answers"]
    assert answers == [together[index] for index in (1, 0, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("temperature", ["1e-45", "1e-39", "1e-37"])
def test_the_smallest_temperatures_write_the_most_probable(runs, temperature, capsys):
    asked = ["generate", "--checkpoint", str(runs / "gpt"), "--prompt", "ab", "--max-new-tokens=6", "--json"]
    found = []
    for value in (temperature, "0"):
        assert main([*asked, "--temperature", value]) == 0
        found.append(json.loads(capsys.readouterr().out.splitlines()[-1])["answers"])
    assert found[0] == found[1]


@pytest.mark.slow
def test_beam_search_answers_a_prompt_in_a_batch_of_other_lengths_as_among_its_like(generator):
    together = generator(PROMPTS, max_new_tokens=6, num_beams=3)
    assert generator(PROMPTS[:1] * 3, max_new_tokens=6, num_beams=3) == together[:1] * 3
    ended = [one.ids[-1] == TOKENIZER.end_id for one in together]
    assert [one.reason for one in together] == ["end" if end else "length" for end in ended]


@pytest.mark.slow
def test_an_answer_is_the_most_probable_and_a_continuation_is_drawn(generator):
    said = [generator(PROMPTS, max_new_tokens=9, seed=seed) for seed in (0, 1)]
    greedy = generator(PROMPTS, max_new_tokens=9, temperature=0.0)
    assert (said == [greedy, greedy]) is generator.encodes
    drawn = [generator(PROMPTS, max_new_tokens=9, seed=seed, top_p=0.99) for seed in (0, 1)]
    assert drawn[0] != drawn[1]


@pytest.mark.slow
def test_neither_padding_nor_ids_that_the_tokenizer_lacks_are_written(generator):
    answers = generator(PROMPTS * 20, max_new_tokens=16, temperature=3.0)
    written = np.concatenate([one.ids for one in answers])
    assert len(written) > 500
    assert written.max() < TOKENIZER.vocabulary_size
    assert TOKENIZER.pad_id not in written


@pytest.mark.slow
def test_a_model_continues_ids_as_the_command_does(generator):
    model, info = load(generator.info.checkpoint)
    ids = [generator._encoded(prompt) for prompt in PROMPTS]
    rows = np.stack([np.pad(one, (0, 32 - len(one))) for one in ids])
    how = {"max_new_tokens": 6, "allowed": info.tokenizer.writable(272), "end_id": info.tokenizer.end_id}
    for settings in ({"temperature": 0.0}, {"num_beams": 3}):
        written = model.generate(jnp.asarray(rows), list(map(len, ids)), **how, **settings)
        for row, answer in enumerate(generator(PROMPTS, max_new_tokens=6, **settings)):
            assert tuple(written.ids[row, : written.lengths[row]].tolist()) == answer.ids


@pytest.mark.slow
def test_prompts_come_from_a_file_and_answers_go_to_one(runs, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    files = ["--prompts", str(tmp_path / "prompts.txt"), "--output", str(tmp_path / "answers.jsonl")]
    beams = ["--num-beams", "3", "--length-penalty", "0.6", "--max-new-tokens", "6", "--early-stopping", "false"]
    assert main(["generate", "--checkpoint", str(runs / "gpt"), *files, *beams]) == 0
    said = capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == PROMPTS
    assert [set(row) for row in rows] == [{"prompt", "text", "tokens", "reason"}] * 3
    assert all(row["prompt"] + row["text"] in said for row in rows)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num-beams=2", "--temperature=0.5"], "--temperature = 0.5: acts where tokens are drawn, and beam search"),
        (["--num-beams=2", "--seed=1"], "--seed = 1: has no effect: beam search draws nothing"),
        (["--length-penalty=0.6"], "--length-penalty = 0.6: acts with num_beams above 1 only"),
        (["--early-stopping=later"], "--early-stopping = later"),
        (["--output=answers.csv"], "--output = answers.csv: must end in .jsonl"),
        (["--temperature=nan"], "--temperature = nan: must be a finite number"),
        (["--temperature=-1"], "--temperature = -1"),
        (["--top-p=0"], "--top-p = 0"),
        (["--top-p=nan"], "--top-p = nan: must be a finite number"),
        (["--top-k=-3"], "--top-k = -3"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(runs, flags, message, capsys):
    assert main(["generate", "--checkpoint", str(runs / "gpt"), "--prompt", "a", *flags]) == 2
    assert message in capsys.readouterr().err


def test_ids_of_the_wrong_shape_are_refused(generator):
    model, _ = load(generator.info.checkpoint)
    given = "source" if generator.encodes else "tokens"
    with pytest.raises(UserError, match=rf"^{given} = float32\[2, 3\]: must be whole numbers \[batch, tokens\]"):
        model.generate(np.zeros((2, 3), np.float32))
    with pytest.raises(UserError, match=r"lengths = \[0, 3\]: must be from 1 to the 3 tokens of a row"):
        model.generate(np.zeros((2, 3), int), [0, 3])
    with pytest.raises(UserError, match="num_beam = 3: no such setting; did you mean num_beams"):
        model.generate(np.zeros((2, 3), int), num_beam=3)
    if not generator.encodes:
        with pytest.raises(UserError, match="tokens = 64: tokens, and the model takes 64"):
            model.generate(np.zeros((2, 64), int))


@pytest.fixture(scope="module")
def of_letters(tmp_path_factory):
    """A run whose tokenizer knows the letters a to e and the space."""
    folder = tmp_path_factory.mktemp("letters") / "gpt"
    make_text_run(folder, "gpt", "none", tokenizer=CharacterTokenizer("abcde "))
    return folder


KNOWN = [
    (["ß"], "1 of 1 tokens of the {} stands"),
    (["abß", "ßx"], "3 of 5 tokens of the {}s stand"),
    (["abba", "a"], None),
]


def test_text_that_the_tokenizer_does_not_know_is_counted(of_letters):
    generator, predictor = Generator(of_letters), Predictor(of_letters)
    for texts, said in KNOWN:
        right = [] if said is None else [f"{said} for text that the tokenizer doesn't know"]
        assert list(generator.unknown(texts)) == [line.format("prompt") for line in right]
        _, found = predictor.task.notes(gather_texts(texts, predictor.info.text))
        assert list(found) == [line.format("text") for line in right]


@pytest.mark.gate
@pytest.mark.parametrize(("command", "of"), [("generate", "prompt"), ("predict", "text")])
def test_text_that_the_tokenizer_does_not_know_is_told(of_letters, command, of, capsys):
    short = ["--max-new-tokens=1"] if command == "generate" else []
    for texts, said in KNOWN:
        given = [f"--{of}={text}" for text in texts]
        assert main([command, "--checkpoint", str(of_letters), *given, *short]) == 0
        printed = capsys.readouterr()
        warnings = [line for line in (printed.out + printed.err).splitlines() if line.startswith("warning: ")]
        right = [] if said is None else [f"warning: {said.format(of)} for text that the tokenizer doesn't know"]
        assert warnings == right
