"""A checkpoint of a prefix LM says itself how it reads: it is measured, asked and converted without a flag."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_text_run import TOKENIZER, make_text_run

from vitzoo.cli.entry import main
from vitzoo.evaluation.evaluate import evaluate
from vitzoo.inference.generator import Generator
from vitzoo.weights.load import load

PAIRS = [{"prompt": f"say {word}", "completion": word} for word in ("one", "two", "three", "four", "five")]
CHOICES = [{"question": f"say {n}", "choices": ["one", "two"], "answer": n % 2} for n in range(3)]
TEXTS = [{"text": f"{n} and one is more"} for n in range(5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("prefix")
    for name, rows in (("pairs", PAIRS), ("choices", CHOICES), ("texts", TEXTS)):
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = {"split": "all", "batch_size": 4}
    evaluators = {
        "answers": {"name": "perplexity", "rows": "answers", **own},
        "split": {"name": "perplexity", "data": {"name": f"jsonl:{made}/texts.jsonl"}, **own},
        "choice": {"name": "multiple_choice", "data": {"name": f"jsonl:{made}/choices.jsonl"}, **own},
        "word": {"name": "last_word", "data": {"name": f"jsonl:{made}/texts.jsonl"}, **own},
        "said": {"name": "generation", "max_new_tokens": 4, **own},
    }
    data = f"jsonl:{made}/pairs.jsonl"
    make_text_run(made / "run", "gpt", data, evaluate=evaluators, objective="prefix_lm", prefix_lm=True)
    return made


@pytest.fixture(scope="module")
def whole(folder):
    """Logits [tokens + 1, vocabulary] of what is said behind a text that is read in both directions; no cache."""
    model, _ = load(str(folder / "run"))
    run = jax.jit(lambda tokens, prefix: model(tokens, tokens_prefix=prefix))

    def logits(given, said):
        before = TOKENIZER.encode(given).tolist()
        tokens = np.zeros(32, np.int32)
        tokens[: len(before) + len(said)] = [*before, *said]
        return np.asarray(run(tokens[None], jnp.arange(32)[None] < len(before))[0])[len(before) - 1 :][: len(said) + 1]

    return logits


def log_probability(logits, ids):
    return float(jax.nn.log_softmax(logits[: len(ids)])[np.arange(len(ids)), ids].sum())


@pytest.mark.slow  # compiles a program for each evaluator
def test_every_evaluator_takes_what_is_given_for_the_prefix(folder, whole):
    found = {name: one["metrics"] for name, one in evaluate(str(folder / "run"))["results"].items()}

    def mean(pairs):
        ids = [[*TOKENIZER.encode(said), *end] for _, said, end in pairs]
        sums = [log_probability(whole(given, one), one) for (given, *_), one in zip(pairs, ids, strict=True)]
        return -sum(sums) / sum(map(len, ids)), sums

    loss, _ = mean([(one["prompt"], one["completion"], [TOKENIZER.end_id]) for one in PAIRS])
    assert found["answers"]["loss"] == pytest.approx(loss, rel=1e-4)
    right = [
        np.argmax([log_probability(whole(one["question"], ids), ids) for ids in map(TOKENIZER.encode, one["choices"])])
        == one["answer"]
        for one in CHOICES
    ]
    assert found["choice"]["accuracy"] == pytest.approx(np.mean(right))
    _, sums = mean([(one["text"].rpartition(" ")[0], " more", []) for one in TEXTS])
    assert found["word"]["perplexity"] == pytest.approx(np.exp(-np.mean(sums)), rel=1e-3)
    assert 5 <= found["split"]["tokens"] < sum(len(one["text"]) + 1 for one in TEXTS)


@pytest.mark.slow
def test_a_prompt_is_read_in_both_directions_and_answered_in_a_batch_as_alone(folder, whole):
    generator = Generator(folder / "run")
    prompts, allowed = ["say one", "2"], TOKENIZER.writable(272)
    together = generator(prompts, max_new_tokens=4, temperature=0.0)
    assert generator(prompts[:1], max_new_tokens=4, temperature=0.0) == together[:1]
    for prompt, answer in zip(prompts, together, strict=True):
        said = []
        for id in answer.ids:
            assert int(np.where(allowed, whole(prompt, said)[-1], -np.inf).argmax()) == id
            said.append(id)


def test_a_format_that_knows_no_prefix_is_refused(folder, tmp_path, capsys):
    assert main(["convert", str(folder / "run"), str(tmp_path / "gpt2"), "--format", "gpt2"]) == 2
    assert "model.prefix_lm = True: has no place in GPT-2's format, where it is False" in capsys.readouterr().err
