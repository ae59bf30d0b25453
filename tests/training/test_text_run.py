"""A language model is trained, resumed, measured and written with, from a text file alone."""

import io
import json
import logging
import random
import re

import jax
import pytest

import vitzoo.config
from vitzoo.checkpoints.arrays import read_params
from vitzoo.checkpoints.locate import locate
from vitzoo.errors import UserError
from vitzoo.evaluation.evaluate import evaluate
from vitzoo.inference.generate import generate
from vitzoo.inference.generator import Generator
from vitzoo.nn.paths import flatten
from vitzoo.training import loop

WORDS = [
    "the",
    "a",
    "small",
    "large",
    "red",
    "green",
    "cat",
    "dog",
    "bird",
    "sees",
    "hears",
    "likes",
    "one",
    "two",
    "of",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(300)]
    file = tmp_path_factory.mktemp("text") / "lines.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def config_of(corpus, steps=8, **changes):
    config = vitzoo.config.default()
    config.total_steps = steps
    config.model = dict(name="gpt", width=16, depth=2, num_heads=2, mlp_dim=32, context_length=48, dropout=0.1)
    config.objective = dict(name="causal_lm", rows="documents")
    config.data = dict(name=f"text:{corpus}", batch_size=8, document="line")
    config.inputs.tokens = dict(length=48, packing=True)
    config.accumulate = 2
    config.optimizer = dict(name="adamw", learning_rate=1e-2, grad_clip=1.0)
    config.checkpoint = dict(every_steps=4)
    config.log = dict(every_steps=2, tensorboard=False)
    config.evaluate = dict(val=dict(name="perplexity", every_steps=4))
    for key, value in changes.items():
        config[key] = value
    return config


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "gpt"
    out = io.StringIO()
    return workdir, loop.train(config_of(corpus), workdir, out), out.getvalue()


def lines_of(workdir):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "goodput")} for line in lines]


@pytest.mark.gate
def test_a_run_says_what_it_reads_and_what_to_do_next(run):
    workdir, result, said = run
    assert result["finished"]
    assert "rows of 48 tokens, vocabulary 259 (bytes)" in said
    assert f"next    vitzoo generate --checkpoint {workdir} --prompt TEXT" in said
    first, last = lines_of(workdir)[0], result["metrics"]["val"]
    assert first["loss"] == pytest.approx(5.557, abs=0.6)  # ln 259
    assert last["loss"] < first["loss"]


@pytest.mark.gate
def test_dropout_packing_and_accumulation_resume_bitwise(run, corpus, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        stop_after_save(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            loop.train(config_of(corpus), tmp_path / "cut", io.StringIO())
    loop.train(config_of(corpus), tmp_path / "cut", io.StringIO())
    whole, resumed = (flatten(read_params(locate(str(path)), "raw")[0]) for path in (run[0], tmp_path / "cut"))
    assert all((whole[path] == resumed[path]).all() for path in whole)
    assert lines_of(tmp_path / "cut") == lines_of(run[0])


def stop_after_save(patch, step):
    from vitzoo.checkpoints.store import Store

    save = Store.save

    def once(self, number, *rest):
        save(self, number, *rest)
        if number == step:
            self.wait()
            raise KeyboardInterrupt

    patch.setattr(Store, "save", once)


@pytest.mark.gate
def test_evaluation_counts_every_token_once_whatever_the_batch(run, corpus):
    results = [evaluate(str(run[0]), {"data.batch_size": size}, out=io.StringIO())["results"]["val"] for size in (8, 6)]
    first, second = (result["metrics"] for result in results)
    assert first["tokens"] == second["tokens"]
    assert first["loss"] == pytest.approx(second["loss"], rel=1e-6)
    assert first["loss"] == pytest.approx(run[1]["metrics"]["val"]["loss"], rel=1e-6)


@pytest.fixture(scope="module")
def generator(run):
    return Generator(run[0])


PROMPTS = ["the cat", "a", "one large red dog sees"]


@pytest.mark.gate
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"temperature": 0.0}, marks=pytest.mark.slow),
        pytest.param({"temperature": 0.9, "top_k": 20, "top_p": 0.95}, marks=pytest.mark.slow),
    ],
)
def test_a_prompt_in_a_batch_of_other_lengths_is_answered_as_alone(generator, settings):
    together = generator(PROMPTS, max_new_tokens=20, seed=3, **settings)
    alone = generator(PROMPTS[:1], max_new_tokens=20, seed=3, **settings)
    assert together[0] == alone[0]
    if settings["temperature"]:
        assert len({one.ids for one in together}) == 3


@pytest.mark.slow
def test_the_most_probable_tokens_with_a_cache_are_those_without(generator):
    import jax
    import numpy as np

    from vitzoo.nn import state
    from vitzoo.weights.load import load

    model, info = load(generator.info.checkpoint)
    graph, params = state.split(model)
    whole = jax.jit(lambda params, rows: state.merge(graph, params)(rows))  # what stands behind a token is not seen
    ids = list(info.tokenizer.encode(PROMPTS[0]))
    answer = generator([PROMPTS[0]], max_new_tokens=3, temperature=0.0)[0]
    for id in answer.ids:
        logits = whole(params, np.pad(ids, (0, 48 - len(ids)))[None])[0, len(ids) - 1]
        assert id == int(np.argmax(np.where(info.tokenizer.writable(len(logits)), logits, -np.inf)))
        ids.append(id)


@pytest.mark.gate
def test_an_answer_ends_where_it_should(generator):
    long = generator(["the cat"], max_new_tokens=400, temperature=1.0, seed=1)[0]
    assert long.reason in ("end", "context")
    assert len(generator.info.tokenizer.encode("the cat")) + len(long.ids) <= 48
    few = generator(["the cat"], max_new_tokens=3, temperature=0.0)[0]
    assert (few.reason, len(few.ids)) == ("length", 3)
    prompt = "the cat sees one red bird and hears a dog of two"[:44]
    full = generator([prompt], max_new_tokens=400, temperature=0.0)[0]  # its context is of 48 tokens
    assert (full.reason, len(full.ids)) == ("context", 4)
    text = generator(["the cat"], max_new_tokens=30, temperature=1.0, seed=5)[0].text
    stopped = generator(["the cat"], max_new_tokens=30, temperature=1.0, seed=5, stop=[text[2:4]])[0]
    assert stopped.reason == "stop"
    assert stopped.text == text[: text.find(text[2:4])]


def test_another_variant_is_another_model_than_the_quickstarts():
    sizes = [
        vitzoo.config.resolve("gpt/quickstart", overrides={"model.variant": variant}).experiment.model.config().width
        for variant in ("gpt-micro", "gpt-nano", "gpt2-124M")
    ]
    assert sizes == [128, 48, 768]


@pytest.mark.gate
def test_what_is_shown_as_it_is_written_is_the_answer(generator):
    shown = []
    answer = generator(["the"], max_new_tokens=30, seed=2, wrote=lambda row, text: shown.append(text))[0]
    assert "".join(shown) == answer.text


@pytest.mark.gate
def test_a_prompt_that_fills_the_context_is_refused(generator):
    with pytest.raises(UserError, match=r"prompt.*has 60 tokens, and the model takes 48"):
        generator(["x" * 60])
    shown = io.StringIO()
    with pytest.raises(UserError, match="has 48 tokens, and the model takes 48"):
        generate(generator.info.checkpoint, "x" * 48, out=shown)
    assert shown.getvalue() == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": {"tokens": {"length": 64}}}, "inputs.tokens.length = 64: is more than model.context_length = 48"),
        ({"augment": {"flip": True}}, "augment.flip = True: has no effect: the model takes tokens"),
        ({"model": {"vocabulary_size": 100}}, "model.vocabulary_size = 100: the tokenizer has 259 ids"),
    ],
)
def test_what_does_not_fit_text_is_refused(corpus, tmp_path, changes, message):
    with pytest.raises(UserError) as refusal:
        loop.train(config_of(corpus, **changes), tmp_path / "run", io.StringIO())
    assert message in str(refusal.value)
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.slow
def test_every_step_is_compiled_once_whatever_the_rows_and_the_evaluations(tmp_path):
    # 103 texts in batches of 8: an odd last batch, two evaluations of each of two evaluators, lengths that vary
    draw = random.Random(0)
    file = tmp_path / "lines.txt"
    file.write_text("".join(" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) + "\n" for _ in range(103)))
    config = config_of(file, steps=None, total_epochs=3.0, accumulate=1)
    config.data = dict(name=f"text:{file}", batch_size=8, validation_fraction=0.0, document="line")
    config.inputs.tokens = dict(length=48, packing=False)
    config.evaluate = dict(
        val=dict(name="perplexity", split="train", every_steps=None, every_epochs=2),
        few=dict(name="perplexity", split="train[:13]", every_epochs=2),
    )
    compiled = []

    class Names(logging.Handler):
        def emit(self, record):
            if found := re.match(r"Finished XLA compilation of jit\((\w+)\)", record.getMessage()):
                compiled.append(found[1])

    handler = Names()
    logging.getLogger("jax").addHandler(handler)
    try:
        with jax.log_compiles(True):
            loop.train(config, tmp_path / "run")
    finally:
        logging.getLogger("jax").removeHandler(handler)
    assert compiled.count("step") == 3  # one of training, one of each evaluator
    assert len(compiled) == len(set(compiled)) + 2
