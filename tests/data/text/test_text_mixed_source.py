"""Mixtures as a config states them, and examples of other kinds as pairs."""

import json

import numpy as np
import pytest

import vitzoo.config
from vitzoo.config.experiment import inputs_of
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.text.examples import as_pairs
from vitzoo.data.text.mixture import of_source, settings_of
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture
def made(tmp_path):
    words = [{"source": f"w{n}", "target": f"v{n}"} for n in range(30)]
    mails = [{"text": f"buy {n}", "label": ("ham", "spam")[n % 2]} for n in range(20)]
    return {"words": write(tmp_path / "words.jsonl", words), "mails": write(tmp_path / "mails.jsonl", mails)}


def mixed(made, **changes):
    config = vitzoo.config.default()
    config.total_steps = 1
    config.model = dict(name="t5", width=8, encoder_depth=1, decoder_depth=1, num_heads=1, head_dim=8, mlp_dim=8)
    config.objective = dict(name="seq2seq")
    config.data = dict(name="mixture", split="train", batch_size=4)
    config.inputs.tokens = dict(source_length=32, length=16)
    config.inputs.tokens.tokenizer = dict(kind="characters")
    sources = {
        "words": dict(name=f"jsonl:{made['words']}", prefix="say: "),
        "mails": dict(name=f"jsonl:{made['mails']}", prefix="kind: "),
    }
    config.mixture = dict(sources=sources, rates=(1.0, 3.0)) | changes
    return vitzoo.config.resolve(config).experiment


def test_a_mixture_holds_each_source_behind_its_prefix_at_its_rate(made):
    experiment = mixed(made)
    inputs = inputs_of(experiment)
    source = inputs.source(experiment.data)
    inputs = inputs.learned(source)
    rows = inputs.rows(source, experiment.data, None, train=True)
    decode = lambda ids: inputs.text.tokenizer.decode(ids, skip_specials=True)  # noqa: E731
    seen = [rows.train_row(0, 0, position) for position in range(400)]
    sources = [decode(row["source"]) for row in seen]
    assert {text.partition(": ")[0] for text in sources} == {"say", "kind"}
    assert 0.65 < np.mean([text.startswith("kind: ") for text in sources]) < 0.85
    for row, text in zip(seen, sources, strict=True):
        target = decode(row["targets"])
        number = int("".join(filter(str.isdigit, text)))
        assert target == (f"v{number}" if text.startswith("say") else ("ham", "spam")[number % 2])


def test_the_tokenizer_of_a_mixture_knows_prefixes_and_class_names(made):
    experiment = mixed(made)
    inputs = inputs_of(experiment)
    tokenizer = inputs.learned(inputs.source(experiment.data)).text.tokenizer
    for text in ("say: ", "kind: ", "spam", "ham"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({}, r"mixture\.sources.*is empty"),
        ({"one": {"prefix": "a"}}, r"mixture\.sources\.one\.name.*must be set"),
        ({"one": {"name": "sums", "prefx": "a"}}, r"mixture\.sources\.one\.prefx.*did you mean prefix"),
        ({"one": {"name": "jsonl:/nowhere.jsonl"}}, r"mixture\.sources\.one\.name = .*no such file"),
        ({"one": {"name": "sums", "batch_size": 7}}, r"mixture\.sources\.one\.batch_size = 7: is of the whole m"),
        ({"one": {"name": "sums"}, "two": {"name": "digits"}}, r"mixture\.sources\.two\.name = digits: holds images"),
        ({"one": {"name": "sums"}, "two": {"name": "stdlib"}}, r"mixture\.sources\.two\.name = .*takes source"),
        ({"one": {"name": "sums", "split": "nine"}}, r"mixture\.sources\.one\.split = nine: no split"),
    ],
)
def test_a_mixture_that_cannot_be_opened_is_refused_by_its_field(made, sources, message):
    def opened():
        experiment = mixed(made, sources=sources, rates=None)
        return inputs_of(experiment).source(experiment.data)

    with pytest.raises(UserError, match=message):
        opened()


def test_sources_of_a_mixture_need_the_name_mixture(made):
    with pytest.raises(UserError, match="must be `mixture`"):
        vitzoo.config.resolve(
            {
                "total_steps": 1,
                "model": {"name": "t5"},
                "objective": {"name": "seq2seq"},
                "data": {"name": "sums"},
                "mixture": {"sources": {"a": {"name": "sums"}}},
            }
        )


def test_labelled_texts_prompts_and_sentence_pairs_become_pairs(tmp_path):
    def first(records):
        made = Data(name=f"jsonl:{write(tmp_path / 'x.jsonl', records)}", batch_size=1, validation_fraction=0.0)
        return as_pairs(open_source(made))[0]

    assert first([{"text": "buy", "label": "spam"}]) == {"source": "buy", "target": "spam"}
    assert first([{"prompt": "a", "completion": "b"}]) == {"source": "a", "target": "b"}
    pair = {"sentence1": "x", "sentence2": "y", "label": "same"}
    assert first([pair]) == {"source": "first: x second: y", "target": "same"}
    with pytest.raises(UserError, match="takes source \\+ target"):
        first([{"text": "only"}])


@pytest.mark.parametrize("setting", ["tokenizer", "fields"])
def test_what_the_model_is_trained_with_is_no_sources_own(setting):
    message = rf"mixture\.sources\.words\.{setting} = .*: is of the whole mixture: inputs\.tokens\.{setting}"
    with pytest.raises(UserError, match=message):
        settings_of({"name": "x", setting: {"kind": "bytes"}}, Data(name="mixture"), Text(), "mixture.sources.words")


def test_a_sources_text_settings_are_named_where_the_source_states_them():
    refusal = UserError("inputs.tokens.length", 5, "is wrong")
    assert of_source("words", {"length": 5}, refusal).field == "mixture.sources.words.length"
    assert of_source("words", {"prefix": "say: "}, refusal) is refusal
    assert of_source("words", {}, UserError("data.name", "x", "is wrong")).field == "mixture.sources.words.name"
