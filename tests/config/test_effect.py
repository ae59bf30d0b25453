"""A setting that does nothing for the kind of data that is read is refused where a flag states it, and said where a
file does. Which setting acts where is what the readers in `vitzoo.data` look at.
"""

import dataclasses

import pytest

import vitzoo
from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.data.settings import Data
from vitzoo.data.text.settings import Text
from vitzoo.errors import Refused

IMAGES = {"folder:/photos": "folder", "csv:/photos/x.csv": "csv", "digits": "named", "imagenet2012": "tfds"}
TEXTS = {"text:/book": "text", "jsonl:/x.jsonl": "jsonl", "stdlib": "stdlib", "sums": "named", "glue/sst2": "tfds"}
VALUES = {
    "data.image_key": "x",
    "data.label_key": "x",
    "data.image_column": "x",
    "data.label_column": "x",
    "data.validation_fraction": "0.2",
    "data.bad_files": "skip",
    "text.document": "line",
    "text.files": "*.md",
    "text.template": "say {x}",
    "text.text_field": "x",
    "text.label_field": "x",
    "text.source_field": "x",
    "text.target_field": "x",
    "text.first_field": "x",
    "text.second_field": "x",
    "text.turn_prefix": "<{role}>",
    "text.turn_suffix": "!",
    "text.answer_roles": "bot",
}
ACTS = {
    "data.image_key": {"images": {"named", "tfds"}},
    "data.label_key": {"images": {"named", "tfds"}},
    "data.image_column": {"images": {"csv"}},
    "data.label_column": {"images": {"csv"}},
    "data.validation_fraction": {"images": {"folder", "csv"}, "texts": {"text", "jsonl", "stdlib"}},
    "data.bad_files": {"images": {"folder", "csv", "named", "tfds"}, "texts": {"text", "jsonl"}},
    "text.document": {"texts": {"text", "stdlib"}},
    "text.files": {"texts": {"text"}},
    **{name: {"texts": {"jsonl", "tfds"}} for name in list(VALUES)[8:]},
}


def config(name: str, text: bool) -> dict:
    model = {"name": "gpt", "variant": "gpt2-124M"} if text else {"name": "vit", "variant": "Ti/16"}
    objective = {"name": "causal_lm" if text else "classification"}
    return {"total_steps": 1, "model": model, "objective": objective, "data": {"name": name}}


@pytest.mark.parametrize("setting", VALUES)
@pytest.mark.parametrize("text", [False, True], ids=["images", "texts"])
def test_a_flag_without_effect_is_refused_and_one_with_effect_is_taken(setting, text):
    if setting.startswith("text.") and not text:
        pytest.skip("refused with the whole section")
    for name, kind in (TEXTS if text else IMAGES).items():
        flags = [f"{setting}={VALUES[setting]}"]
        if kind in ACTS[setting].get("texts" if text else "images", ()):
            resolved = resolve(config(name, text), overrides=flags)
            assert not any(note.startswith(setting) for note in resolved.notes)
        else:
            with pytest.raises(Refused, match=rf"^{setting} = .*: has no effect on .*; it is for "):
                resolve(config(name, text), overrides=flags)


@pytest.mark.parametrize(("name", "text"), [("folder:/photos", False), ("text:/book", True), ("digits", False)])
def test_of_a_file_it_is_said(name, text):
    stated = config(name, text)
    stated["data"]["image_column"] = "x"
    (note,) = (note for note in resolve(stated).notes if "no effect" in note)
    assert note.startswith("data.image_column = x has no effect on ")


def test_a_setting_of_an_evaluators_data_has_an_effect():
    stated = config("folder:/photos", False)
    stated["evaluate"] = {"other": {"name": "classification", "data": {"name": "csv:/photos/x.csv"}, "split": "train"}}
    assert resolve(stated, overrides=["data.label_column=x"]).experiment.data.label_column == "x"


def test_what_a_users_own_data_make_of_a_setting_is_not_known(tmp_path, monkeypatch):
    (tmp_path / "own_effect.py").write_text("def data(data):\n    ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve(config("own_effect:data", False), overrides=["data.label_column=x"]).notes == []


def test_settings_of_a_mixture_are_for_mixtures():
    with pytest.raises(Refused, match=r"mixture.temperature = 2.0: has no effect on a single dataset"):
        resolve(config("sums", True), overrides=["mixture.temperature=2"])


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("folder:/photos", "data.label_column=x"),
        ("csv:/x.csv", "data.image_key=x"),
        ("text:/book", "data.label_column=x"),
        ("text:/book", "text.template=say {x}"),
        ("jsonl:/x.jsonl", "text.document=line"),
        ("jsonl:/x.jsonl", "data.image_key=x"),
    ],
)
def test_the_data_commands_refuse_them_too(name, flag, capsys):
    assert main(["data", "check", name, f"--config.{flag}"]) == 2
    assert "has no effect on" in capsys.readouterr().err


def test_every_setting_that_says_how_data_are_read_is_known_here():
    everywhere = {"name", "split", "batch_size", "dir", "workers", "prefetch", "repeats", "balance", "in_memory"}
    assert {field.name for field in dataclasses.fields(Data)} - everywhere == {
        name.partition(".")[2] for name in VALUES if name.startswith("data.")
    }
    of_rows = {
        "sequence_length", "source_length", "packing", "random_offsets", "noise_density", "mean_span", "roll_spans",
        "mask_rate", "whole_words", "next_sentence", "prefix", "regression", "paired", "chat",
    }  # fmt: skip
    assert {field.name for field in dataclasses.fields(Text)} - of_rows >= {
        name.partition(".")[2] for name in VALUES if name.startswith("text.")
    }
    assert vitzoo.__version__
