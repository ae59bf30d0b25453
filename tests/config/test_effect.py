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
from vitzoo.errors import UserError

IMAGES = {"folder:/photos": "folder", "csv:/photos/x.csv": "csv", "digits": "named", "imagenet2012": "tfds"}
TEXTS = {
    "text:/book": "text",
    "csv:/x.csv": "csv",
    "jsonl:/x.jsonl": "jsonl",
    "stdlib": "stdlib",
    "sums": "named",
    "glue/sst2": "tfds",
}
VALUES = {
    "data.image_field": "x",
    "data.label_field": "x",
    "data.validation_fraction": "0.2",
    "data.bad_files": "skip",
    "data.document": "line",
    "data.files": "*.md",
    "data.template": "say {x}",
    "data.text_field": "x",
    "data.source_field": "x",
    "data.target_field": "x",
    "data.first_field": "x",
    "data.second_field": "x",
    "inputs.tokens.turn_prefix": "<{role}>",
    "inputs.tokens.turn_suffix": "!",
    "inputs.tokens.answer_roles": "bot",
}
OF_ANSWERS = ("inputs.tokens.turn_prefix", "inputs.tokens.turn_suffix", "inputs.tokens.answer_roles")
IMAGES_TOO = ("data.image_field", "data.label_field")
RECORDS = {"images": {"csv"}, "texts": {"csv", "jsonl", "tfds"}}
ACTS = {
    "data.image_field": {"images": {"csv", "named", "tfds"}, "texts": {"csv", "jsonl"}},
    "data.label_field": {"images": {"csv", "named", "tfds"}, "texts": {"csv", "jsonl", "tfds"}},
    "data.validation_fraction": {"images": {"folder", "csv"}, "texts": {"text", "csv", "jsonl", "stdlib"}},
    "data.bad_files": {"images": {"folder", "csv", "named", "tfds"}, "texts": {"text", "csv", "jsonl"}},
    "data.document": {"texts": {"text", "stdlib"}},
    "data.files": {"texts": {"text"}},
    **{name: RECORDS for name in VALUES if name.endswith(("_field", "template")) and name not in IMAGES_TOO},
    "data.text_field": {"images": {"csv", "tfds"}, "texts": {"csv", "jsonl", "tfds"}},
    **{name: {"texts": {"jsonl", "tfds"}} for name in OF_ANSWERS},
}


def config(name: str, text: bool) -> dict:
    model = {"name": "gpt", "variant": "gpt2-124M"} if text else {"name": "vit", "variant": "Ti/16"}
    objective = {"name": "causal_lm" if text else "classification"}
    return {"total_steps": 1, "model": model, "objective": objective, "data": {"name": name}}


@pytest.mark.parametrize(
    ("setting", "text"),
    [(name, text) for name in VALUES for text in (False, True) if text or name.startswith("data.")],
)
def test_a_flag_without_effect_is_refused_and_one_with_effect_is_taken(setting, text):
    for name, kind in (TEXTS if text else IMAGES).items():
        flags = [f"{setting}={VALUES[setting]}"]
        if kind in ACTS[setting].get("texts" if text else "images", ()):
            rows = ["objective.rows=answers"] if setting in OF_ANSWERS else []
            resolved = resolve(config(name, text), overrides=[*flags, *rows])
            assert not any(note.startswith(setting) for note in resolved.notes)
        else:
            with pytest.raises(UserError, match=rf"^{setting} = .*: has no effect on .*; it is for "):
                resolve(config(name, text), overrides=flags)


@pytest.mark.parametrize(
    ("flag", "on"),
    [
        ("crop_area=0.5,1", "crop=inception"),
        ("crop_scale=1.3", "crop=resize_random"),
        ("randaugment_magnitude=9", "randaugment_layers=2"),
        ("randaugment_increasing=true", "randaugment_layers=2"),
        ("mix_probability=0.5", "mixup=0.2"),
        ("mix_probability=0.5", "cutmix=1"),
        ("random_erasing_fill=noise", "random_erasing=0.25"),
    ],
)
def test_how_an_augmentation_acts_that_is_off_has_no_effect(flag, on):
    images = config("digits", False)
    (note,) = resolve(images, overrides=[f"augment.{flag}"]).notes
    assert note.startswith(f"augment.{flag.partition('=')[0]} = ")
    assert "has no effect without augment." in note
    assert resolve(images, overrides=[f"augment.{flag}", f"augment.{on}"]).notes == []


@pytest.mark.parametrize(
    ("flag", "on"),
    [
        ("schedule.initial_fraction=0.1", "schedule.warmup_steps=1"),
        ("schedule.initial_fraction=0.1", "schedule.warmup_fraction=0.1"),
        ("model.rotary_base=50", "model.positions=rotary"),
        ("model.qk_norm_bias=true", "model.qk_norm=true"),
        ("log.wandb_name=mine", "log.wandb=true"),
        ("log.wandb_project=ours", "log.wandb=true"),
        ("inputs.image.crop_offset=half_even", "inputs.image.resize=short_side_crop"),
        ("inputs.image.crop_offset=half_even", "inputs.image.crop_fraction=0.9"),
    ],
)
def test_what_says_how_something_acts_that_is_off_has_no_effect(flag, on):
    images = config("digits", False)
    (note,) = resolve(images, overrides=[flag]).notes
    assert note.startswith(flag.partition("=")[0])
    assert " has no effect without " in note
    assert resolve(images, overrides=[flag, on]).notes == []


def test_what_a_checkpoint_may_have_is_not_said_to_be_off():
    from_checkpoint = {**config("digits", False), "init_from": "/runs/rotary"}
    flags = ["model.rotary_base=50", "inputs.image.crop_offset=half_even"]
    assert resolve(from_checkpoint, overrides=flags).notes == []


@pytest.mark.parametrize(
    "flag",
    [
        "inputs.tokens.turn_prefix=<{role}>",
        "inputs.tokens.turn_suffix=!",
        "inputs.tokens.answer_roles=bot",
        "data.regression=true",
        "inputs.tokens.mask_rate=0.3",
    ],
)
def test_a_setting_of_other_rows_is_refused(flag):
    with pytest.raises(
        UserError, match=rf"{flag.partition('=')[0]} = .*: has no effect on rows of windows; it acts on"
    ):
        resolve(config("jsonl:/x.jsonl", True), overrides=[flag])


def test_a_length_of_the_source_is_of_encoder_decoders():
    with pytest.raises(
        UserError, match=r"inputs.tokens.source_length = 64: has no effect on gpt, which is no encoder-decoder"
    ):
        resolve(config("jsonl:/x.jsonl", True), overrides=["inputs.tokens.source_length=64"])
    t5 = {"model": {"name": "t5", "variant": "small"}, "objective": {"name": "seq2seq"}}
    resolve({**config("jsonl:/x.jsonl", True), **t5}, overrides=["inputs.tokens.source_length=64"])


@pytest.mark.parametrize(("name", "text"), [("folder:/photos", False), ("text:/book", True), ("digits", False)])
def test_of_a_file_it_is_said(name, text):
    stated = config(name, text)
    stated["data"]["template"] = "{x}"
    (note,) = (note for note in resolve(stated).notes if "no effect" in note)
    assert note.startswith("data.template = {x} has no effect on ")


def test_a_setting_of_an_evaluators_data_has_an_effect():
    stated = config("folder:/photos", False)
    stated["evaluate"] = {"other": {"name": "classification", "data": {"name": "csv:/photos/x.csv"}, "split": "train"}}
    assert resolve(stated, overrides=["data.label_field=x"]).experiment.data.label_field == "x"


def test_what_a_users_own_data_make_of_a_setting_is_not_known(tmp_path, monkeypatch):
    (tmp_path / "own_effect.py").write_text("def data(data):\n    ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve(config("own_effect:data", False), overrides=["data.label_field=x"]).notes == []


def test_settings_of_a_mixture_are_for_mixtures():
    with pytest.raises(UserError, match=r"mixture.temperature = 2.0: has no effect on a single dataset"):
        resolve(config("sums", True), overrides=["mixture.temperature=2"])


@pytest.mark.parametrize(("name", "text"), [("folder:/photos", False), ("csv:/x.csv", False), ("text:/book", True)])
def test_the_folder_of_prepared_data_is_said_to_have_no_effect_on_a_path(name, text, capsys):
    (note,) = resolve(config(name, text), overrides=["data.dir=/data"]).notes
    assert note.startswith("data.dir = /data has no effect on ")
    assert main(["data", "check", name, "--dir", "/data"]) == 2
    assert "--dir = /data: has no effect on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("folder:/photos", "data.label_field=x"),
        ("csv:/x.csv", "data.document=line"),
        ("text:/book", "data.label_field=x"),
        ("text:/book", "data.template=say {x}"),
        ("jsonl:/x.jsonl", "data.document=line"),
        ("jsonl:/x.jsonl", "data.files=*.md"),
    ],
)
def test_the_data_commands_refuse_them_too(name, flag, capsys):
    assert main(["data", "check", name, f"--config.{flag}"]) == 2
    assert "has no effect on" in capsys.readouterr().err


def test_every_setting_that_says_how_data_are_read_is_known_here():
    everywhere = {
        "name",
        "split",
        "batch_size",
        "dir",
        "workers",
        "prefetch",
        "repeats",
        "balance",
        "in_memory",
        "regression",
    }
    assert {field.name for field in dataclasses.fields(Data)} - everywhere == {
        name.partition(".")[2] for name in VALUES if name.startswith("data.")
    }
    of_rows = {
        "length", "source_length", "packing", "random_offsets", "noise_density", "mean_span", "roll_spans",
        "mask_rate", "whole_words", "next_sentence", "prefix", "paired", "chat", "fields",
    }  # fmt: skip
    assert {field.name for field in dataclasses.fields(Text)} - of_rows >= {
        name.partition(".")[2] for name in VALUES if name.startswith("text.")
    }
    assert vitzoo.__version__


OWN = """
import dataclasses
from flax import nnx
from vitzoo.schema import setting

@dataclasses.dataclass(frozen=True)
class Objective:
    scaled: bool = False
    margin: float = setting(1.0, "of scaled scores", needs=("{section}.scaled=true", lambda own: own.scaled))

    def bind(self, info, model_config): ...

@dataclasses.dataclass(frozen=True)
class Config:
    image_size: int | tuple[int, int] | None = None
    channels: int | None = None
    vocabulary_size: int | None = None
    num_classes: int | None = None

class Captioned(nnx.Module):
    Config = Config
    INPUTS = {"picture": "image", "caption": "text"}

    def __init__(self, config, *, rngs, execution): ...
    def __call__(self, picture, caption, *, train=False, key=None): ...
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file of a user's own parts, `my_captioned`."""
    (tmp_path / "my_captioned.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own")
def test_inputs_of_other_names_are_named_as_the_model_names_them():
    base = {"total_steps": 1, "model": {"name": "my_captioned:Captioned"}, "data": {"name": "csv:/x.csv"}}

    def resolved(*flags):
        return resolve(base, overrides=flags)

    assert set(resolved().values["inputs"]) == {"picture", "caption"}
    assert resolved("inputs.picture.crop_offset=half_even", "inputs.picture.antialias=false").notes == [
        "inputs.picture.crop_offset = half_even has no effect without a margin "
        "(inputs.picture.resize=short_side_crop or crop_fraction)"
    ]
    assert resolved("inputs.picture.antialias=false", "inputs.picture.interpolation=nearest").notes == [
        "inputs.picture.antialias = False has no effect without an interpolation other than nearest"
    ]
    assert resolved("inputs.caption.tokenizer.kind=characters").notes == []
    for flag, message in {
        "inputs.caption.turn_prefix={role}": "inputs.caption.turn_prefix = {role}: has no effect on a CSV file; it is",
        "inputs.caption.whole_words=true": "inputs.caption.whole_words = True: has no effect on rows of examples; it",
        "inputs.caption.chat=true": "inputs.caption.chat = True: can't be set",
        "inputs.image.resize=pad": "inputs.image.resize = pad: has no effect: my_captioned:Captioned takes picture and",
    }.items():
        with pytest.raises(UserError) as caught:
            resolved(flag)
        assert str(caught.value).startswith(message)


@pytest.mark.usefixtures("own")
def test_a_setting_of_ones_own_that_needs_another_is_told_of():
    model, objective = {"name": "my_captioned:Captioned"}, {"name": "my_captioned:Objective"}
    base = {"total_steps": 1, "model": model, "objective": objective, "data": {"name": "csv:/x.csv"}}
    alone = resolve(base, overrides=["objective.margin=2"]).notes
    assert alone == ["objective.margin = 2.0 has no effect without objective.scaled=true"]
    assert resolve(base, overrides=["objective.margin=2", "objective.scaled=true"]).notes == []
