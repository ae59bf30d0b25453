"""What evaluators of text find, each example once: the same for every batch and number of devices."""

import json
import math

import jax
import numpy as np
import pytest
from made_text_run import TOKENIZER, made_model, make_text_run

from vitzoo.cli.entry import main
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.settings import Data
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.evaluation.generation import GenerationEvaluator
from vitzoo.evaluation.language_modelling import LastWordEvaluator, PerplexityEvaluator
from vitzoo.evaluation.questions import MultipleChoice, MultipleChoiceEvaluator
from vitzoo.evaluation.run import Evaluation
from vitzoo.evaluation.text_metrics import scores
from vitzoo.nn import state
from vitzoo.parallel.mesh import make_mesh

ROWS = {"gpt": "answers", "t5": "pairs"}
HOW = [
    ("gpt", 3, 1),
    *(
        pytest.param(*how, marks=pytest.mark.slow)
        for how in (("gpt", 4, 2), ("gpt", 16, 8), ("t5", 4, 1), ("t5", 16, 8))
    ),
]
"""Model, batch and devices; what is right is computed for each example by itself."""
WORDS = ["one", "two", "three", "four", "five", "six", "seven"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files of eleven pairs, of five questions with choices, and of six texts."""
    folder = tmp_path_factory.mktemp("data")
    pairs = [{"source": f"{word} {number}", "target": word} for number, word in enumerate((WORDS * 2)[:11])]
    choices = [
        {"question": f"say {word}", "choices": WORDS[: 2 + n % 3], "answer": n % 2} for n, word in enumerate(WORDS[:5])
    ]
    texts = [{"text": " ".join(WORDS[n:] + WORDS[:n])} for n in range(6)]
    for name, rows in (("pairs", pairs), ("choices", choices), ("texts", texts)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def bound(evaluator, model, data, name, batch=4, devices=1, **text):
    config, graph, params = made_model(model)
    text = Text(**{"length": 48, "source_length": 48, **text})
    processor = TextProcessor(text, ROWS[model], 0, known=TOKENIZER)
    settings = Data(name=f"jsonl:{data}/{name}.jsonl", batch_size=batch)
    mesh = make_mesh("auto", jax.devices()[:devices])
    evaluation = Evaluation(
        evaluator, graph, inputs=Inputs({"tokens": processor}), config=config, data=settings, classes=None, mesh=mesh
    )
    return evaluation, params, state.merge(graph, params)


METRICS = ("bleu", "chrf", "rougeL", "exact_match", "squad_f1", "word_error_rate")


@pytest.mark.gate
@pytest.mark.parametrize(("model", "batch", "devices"), HOW)
def test_what_is_written_is_what_the_model_writes_whatever_the_batch_and_the_devices(data, model, batch, devices):
    how = {"split": "all", "max_new_tokens": 5, "metrics": METRICS, "baselines": True, "shot_split": "all"}
    evaluation, params, merged = bound(GenerationEvaluator(**how), model, data, "pairs", batch, devices)
    rows = evaluation.rows(params)
    found = evaluation.metrics(rows)
    assert rows["position"].tolist() == list(range(11))
    asked = [evaluation.source[index] for index in range(11)]
    whole = Whole(params, merged)
    said = [plainly_written(whole, one["question"], 5) for one in asked]
    right = [one["references"] for one in asked]
    assert {name: found[name] for name in METRICS} == pytest.approx(scores(METRICS, said, right).values)
    table = evaluation.evaluator.predictions(rows)
    assert [one["prediction"] for one in table] == said
    assert table[3] == {"source": "four 3", "reference": "four", "prediction": said[3]}
    copied = scores(METRICS, [one["question"] for one in asked], right).values
    common = scores(METRICS, ["one"] * 11, right).values
    assert {name: found[f"{name}_copy_source"] for name in METRICS} == pytest.approx(copied)
    assert {name: found[f"{name}_most_common"] for name in METRICS} == pytest.approx(common)
    assert set(evaluation.evaluator.signatures(rows)) == {"bleu", "chrf"}


def test_a_few_shot_answer_ends_at_the_separator(data):
    evaluator = GenerationEvaluator(
        split="all", shots=2, shot_split="all", shot_separator="#", stop=("!",), max_new_tokens=12
    )
    evaluation, _, _ = bound(evaluator, "gpt", data, "pairs")
    ids = np.zeros((2, 64), np.int32)
    for row, text in zip(ids, (" four#one!", "ab! c#"), strict=True):
        row[: len(text)] = TOKENIZER.encode(text)
    rows = {"ids": ids, "length": np.array([10, 6]), "position": np.array([0, 1])}
    assert [one["prediction"] for one in evaluation.evaluator.predictions(rows)] == ["four", "ab"]
    assert evaluation.examples.eval_row(0)["tokens"].tolist().count(TOKENIZER.encode("#")[0]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("model", "batch", "devices"), HOW)
def test_the_most_probable_choice_is_taken_whatever_the_batch_and_the_devices(data, model, batch, devices):
    evaluator = MultipleChoiceEvaluator(split="all", answer_format=" {answer}")
    evaluation, params, merged = bound(evaluator, model, data, "choices", batch, devices)
    rows = evaluation.rows(params)
    found = {"n": len(rows["position"]), **evaluation.metrics(rows)}
    whole = Whole(params, merged)
    table, plain, normalised = evaluation.evaluator.predictions(rows), [], []
    for row, told in enumerate(table):
        one = evaluation.source[row]
        values = [whole.log_probability(one["question"], f" {choice}")[0] for choice in one["choices"]]
        np.testing.assert_allclose(rows["score"][row][: len(values)], values, rtol=1e-4)
        best = int(np.argmax(values))
        fair = int(np.argmax([value / len(choice) for value, choice in zip(values, one["choices"], strict=True)]))
        right = [one["choices"][number] for number in (best, fair, fair)]
        assert [told[name] for name in ("prediction", "prediction_acc_norm", "prediction_acc_bytes")] == right
        plain.append(best == one["answer"])
        normalised.append(fair == one["answer"])
    fair = np.mean(normalised)  # of letters that are a byte each
    assert found == {"n": 5, "accuracy": np.mean(plain), "acc_norm": fair, "acc_bytes": fair}


@pytest.mark.parametrize(
    ("choices", "score", "by"),
    [  # log-probabilities over characters (acc_norm) and over bytes of UTF-8 (acc_bytes), as in lm-evaluation-harness
        (("ééé", "abcd"), (-3.3, -4.0), (0, 1, 0)),  # -1.1 and -1; -0.55 and -1
        (("猫", "cat"), (-1.5, -2.4), (0, 1, 0)),  # -1.5 and -0.8; -0.5 and -0.8
        (("привет", "hello all"), (-9.0, -9.9), (0, 1, 0)),
        (("long answer", "no"), (-4.0, -3.0), (1, 0, 0)),
    ],
)
def test_a_choices_length_is_counted_in_characters_or_in_bytes(choices, score, by):
    asked = {"question": "q", "choices": choices, "references": [choices[0]], "answer": 0}
    rows = {"position": np.array([0]), "score": np.array([[*score, -3.4e38]], np.float32), "answer": np.array([0])}
    evaluator = MultipleChoice([asked])
    metrics = evaluator.metrics(rows)
    assert metrics == dict(zip(("accuracy", "acc_norm", "acc_bytes"), (float(one == 0) for one in by), strict=True))
    lost = evaluator.metrics(rows | {"score": rows["score"] * np.nan})
    assert set(lost.values()) == {0.0}
    said = evaluator.predictions(rows)[0]
    named = ("prediction", "prediction_acc_norm", "prediction_acc_bytes")
    assert [said[name] for name in named] == [choices[number] for number in by]


class Whole:
    """The logits of whole texts by the model's plain call, compiled once; no cache."""

    def __init__(self, params, model):
        graph, _ = state.split(model)
        self.params, self.encodes = params, hasattr(model, "encode")
        self.run = jax.jit(lambda params, *given: state.merge(graph, params)(*given[:-1], **given[-1]))

    def __call__(self, given, said):
        """Of what is said, ids, behind a text: float32 [tokens + 1, vocabulary]."""
        before, tokens, segments = TOKENIZER.encode(given).tolist(), np.zeros(64, np.int32), np.zeros((1, 64), np.int32)
        if not self.encodes:
            tokens[: len(before) + len(said)] = [*before, *said]
            logits = self.run(self.params, tokens[None], {})[0]
            return logits[len(before) - 1 :][: len(said) + 1]
        source = np.zeros(64, np.int32)
        source[: len(before) + 1] = [*before, TOKENIZER.end_id]
        segments[0, : len(before) + 1] = 1
        tokens[1 : len(said) + 1] = said
        return self.run(self.params, source[None], tokens[None], {"source_segments": segments})[0][: len(said) + 1]

    def log_probability(self, given, said):
        ids = TOKENIZER.encode(said)
        values = jax.nn.log_softmax(self(given, ids)[:-1])
        return float(values[np.arange(len(ids)), ids].sum()), bool((values.argmax(-1) == ids).all())


def plainly_written(whole, question, count):
    """The most probable tokens one by one, without a cache, as text."""
    ids, allowed = [], TOKENIZER.writable(272)
    while len(ids) < count and (not ids or ids[-1] != TOKENIZER.end_id):
        ids.append(int(np.where(allowed, whole(question, ids)[-1], -np.inf).argmax()))
    return TOKENIZER.decode(ids, skip_specials=True).strip()


@pytest.mark.slow
def test_the_last_word_is_measured(data):
    evaluation, params, merged = bound(LastWordEvaluator(split="all"), "gpt", data, "texts", batch=4, devices=2)
    rows = evaluation.rows(params)
    found, whole, told = evaluation.metrics(rows), Whole(params, merged), []
    for index in range(6):
        before, _, word = evaluation.source[index]["text"].rpartition(" ")
        told.append(whole.log_probability(before, f" {word}"))
    assert found["accuracy"] == np.mean([right for _, right in told])
    assert found["perplexity"] == pytest.approx(math.exp(-np.mean([value for value, _ in told])), rel=1e-4)
    table = evaluation.evaluator.predictions(rows)
    assert (table[1]["source"], table[1]["reference"]) == ("two three four five six seven", "one")


def test_an_untrained_model_with_even_odds_has_the_perplexity_of_its_vocabulary_and_the_bits_of_its_bytes(data):
    evaluator = PerplexityEvaluator(split="all", rows="windows", stride=5)
    evaluation, params, _ = bound(evaluator, "gpt", data, "texts", batch=4, length=16)
    found = evaluation(jax.tree.map(np.zeros_like, params))
    size = sum(len(evaluation.source[index]["text"].encode()) for index in range(6)) - 1
    assert found["tokens"] == size + 6  # each text has an end token
    assert found["perplexity"] == pytest.approx(272)
    assert found["bits_per_byte"] == pytest.approx((size + 6) * math.log2(272) / size)


def test_bits_per_byte_of_answers_are_counted_by_what_their_tokens_stand_for(data):
    evaluation, _, _ = bound(PerplexityEvaluator(split="all", rows="pairs"), "t5", data, "pairs")
    rows = [evaluation.examples.eval_row(index) for index in range(11)]
    batch = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    kept = evaluation.evaluator.outputs(lambda source, tokens, **_: np.zeros((*tokens.shape, 512), np.float32), batch)
    found = evaluation.evaluator.metrics({name: np.asarray(value) for name, value in kept.items()})
    size = sum(len(evaluation.source[index]["target"]) for index in range(11))
    assert found["tokens"] == size + 11
    assert found["bits_per_byte"] == pytest.approx(9 * (size + 11) / size)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": ("blue",)}, "metrics = blue: did you mean bleu"),
        ({"metrics": ()}, "metrics = (): must name a metric"),
        ({"length_penalty": 0.6}, "length_penalty = 0.6: acts with num_beams above 1 only"),
        ({"length_penalty": 5.1, "num_beams": 2}, "length_penalty = 5.1: must be at least -5 and at most 5"),
        ({"question_format": "Q:"}, "question_format = Q:: must hold {question}"),
        ({"rows": "windows"}, "rows = windows"),
    ],
)
def test_settings_of_generation_that_mean_nothing_are_refused(settings, message):
    from vitzoo.schema import build

    with pytest.raises(UserError) as refusal:
        build(GenerationEvaluator, settings)
    assert message in str(refusal.value)


def test_data_and_models_that_do_not_fit_are_refused(data):
    with pytest.raises(UserError, match="has no questions, but the fields text; needed are source \\+ target"):
        bound(GenerationEvaluator(split="all"), "gpt", data, "texts")
    with pytest.raises(UserError, match="has no choices"):
        bound(MultipleChoiceEvaluator(split="all"), "gpt", data, "pairs")
    with pytest.raises(UserError, match="stride = 4: is of windows, which overlap; these rows are answers"):
        bound(PerplexityEvaluator(split="all", stride=4), "gpt", data, "pairs")
    with pytest.raises(UserError, match="shots = 20: all has only 10 other examples"):
        bound(GenerationEvaluator(split="all", shots=20, shot_split="all", max_new_tokens=8), "gpt", data, "pairs")


@pytest.mark.slow
def test_the_command_gives_shots_and_writes_what_was_said_and_how_it_was_counted(data, tmp_path, capsys):
    settings = {"name": "generation", "split": "all", "metrics": ["bleu"], "max_new_tokens": 4, "shot_split": "all"}
    how = {"question_format": "{question}=", "shot_separator": ";"}
    make_text_run(tmp_path / "run", "gpt", f"jsonl:{data}/pairs.jsonl", evaluate={"said": settings | how})
    file = tmp_path / "said.jsonl"
    given = ["--checkpoint", str(tmp_path / "run"), "--shots", "2"]
    assert main(["eval", *given, "--predictions", str(file)]) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["source"] for row in rows][:3] == ["one 0", "two 1", "three 2"]
    assert set(rows[0]) == {"source", "reference", "prediction"}
    metrics = json.loads((tmp_path / "run" / "eval" / "3-raw" / "said" / "metrics.json").read_text())
    assert (metrics["n"], metrics["signatures"]["bleu"][:7]) == (11, "nrefs:1")
    assert f"bleu  {metrics['signatures']['bleu']}" in capsys.readouterr().out
    assert main(["eval", *given, "--config.data.split=all", "--config.data.name=none"]) == 2
    assert "--shots = 2: none of the evaluators asks questions" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt", "t5"])
def test_beam_search_finds_the_same_on_eight_devices_as_on_one(data, model):
    how = {"split": "all", "max_new_tokens": 5, "num_beams": 3, "length_penalty": 0.6, "length_normalisation": "gnmt"}
    said = []
    for batch, devices in ((4, 1), (16, 8)):
        evaluation, params, _ = bound(GenerationEvaluator(**how), model, data, "pairs", batch, devices)
        said.append(evaluation.evaluator.predictions(evaluation.rows(params)))
    assert said[0] == said[1]
