"""The data sections of a config: what is read, how an image becomes pixels of one size, how training varies them."""

import dataclasses
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, ClassVar

from vitzoo.errors import UserError
from vitzoo.paths import LONGEST
from vitzoo.schema import setting

SMALLEST_STD, LARGEST_MEAN = 1e-6, 1e9
"""Of pixels of 0..255: with these their quotient is still far from float32's largest number."""


OF_STREAM = ("batch_size", "workers", "prefetch", "repeats", "balance", "in_memory")
"""Settings of the data that say how examples are fed; the others say which there are and how they are read."""


@dataclasses.dataclass(frozen=True)
class Data:
    """Which examples, and how they are fed. An evaluator's `data` is a patch of this."""

    name: str = setting(
        "",
        "TFDS name, folder:PATH, csv:FILE, text:FILE|FOLDER, jsonl:FILE|FOLDER, mixture, a set known by name (digits, "
        "fashion_mnist, stdlib, verses ...) or your own module:Class",
    )
    split: str = setting("train", "in TFDS's syntax, for every kind of data: train[:99%], train[100:200], train+test")
    batch_size: int = setting(
        128, "examples in a global batch, over all devices and processes", minimum=1, maximum=2**22
    )
    dir: str = setting("", "folder of prepared data; else $TFDS_DATA_DIR, else ~/tensorflow_datasets", execution=True)
    workers: int = setting(0, "worker processes; 0 reads in threads", minimum=0, execution=True)
    prefetch: int = setting(2, "batches made ahead of the device", minimum=1, execution=True)
    bad_files: str = setting(
        "stop", "an unreadable file stops the run; or is named, counted and left out", choices=("stop", "skip")
    )
    validation_fraction: float = setting(
        0.1,
        "of data without parts of their own (of images, of each class): the split `validation`",
        minimum=0.0,
        below=1.0,
    )
    repeats: int = setting(
        1,
        "repeated augmentation: training shows each example so often in a row, every time with draws of its own; an "
        "epoch stays as many rows, of 1/repeats of the examples, and the next epochs go on with the others",
        minimum=1,
    )
    balance: str = setting("none", "classes: each is drawn equally often in training", choices=("none", "classes"))
    in_memory: str = setting(
        "auto",
        "images decoded once and kept in RAM (auto: up to 1 GiB a split); the batches are the same",
        choices=("auto", "always", "never"),
        execution=True,
    )
    files: str = setting("*.txt", "names of the files that text:FOLDER reads, as a pattern")
    document: str = setting(
        "file", "what a text file holds: one text, one in each line, or paragraphs between blank lines",
        choices=("file", "line", "paragraph"),
    )  # fmt: skip
    regression: bool = setting(False, "labels are numbers to predict, not classes")
    template: str = setting(
        "",
        "a text, or of a pair the source, made of several fields: `mnli hypothesis: {hypothesis} premise: {premise}`; "
        "label_field, target_field or answers say what belongs to it",
    )
    image_field: str = setting(
        "", "field (CSV column, TFDS feature) of the image or its file; else file, filename, path, image ..."
    )
    text_field: str = setting(
        "",
        "field of the text, or of a list of words or of turns; else text, sentence, content, document, words, tokens, "
        "turns, messages, conversation",
    )
    label_field: str = setting(
        "",
        "field of the label, of a list of words' tags or of the right choice's index (of a CSV several, with commas); "
        "else label, class, category, target, tags, labels, ner_tags, pos_tags, answer, gold",
    )
    source_field: str = setting("", "field of the source (prompt) of a pair; else source, input, src, prompt")
    target_field: str = setting("", "field of the target (completion); else target, output, tgt, completion")
    first_field: str = setting("", "field of a pair's first text; else first, sentence1, premise, question1, text1")
    second_field: str = setting(
        "", "field of a pair's second text; else second, sentence2, hypothesis, question2, text2"
    )

    def check(self) -> None:
        if not self.name:
            raise UserError("name", None, "no dataset; give a TFDS name, folder:PATH, csv:FILE, digits, ...")
        if any(len(part.encode(errors="surrogatepass")) > LONGEST for part in self.name.split("/")):
            raise UserError("name", self.name, f"is too long; no name of a file has more than {LONGEST} bytes")
        _check_pattern(self.files)
        self._check_template()

    def _check_template(self) -> None:
        if not self.template:
            return
        fields = [name for name in ("text_field", "source_field", "first_field", "second_field") if getattr(self, name)]
        if fields:
            raise UserError(fields[0], getattr(self, fields[0]), "has no effect with template; name the field in it")
        if self.label_field and self.target_field:
            raise UserError("target_field", self.target_field, "and label_field: with template, give one of them")


def _check_pattern(files: str) -> None:
    """Refuses what is no pattern of files within a folder."""
    message = "is no pattern of files within the folder, such as *.txt or **/*.md"
    path = PurePath(files)
    if not files.strip() or not path.parts or "\0" in files or path.is_absolute() or {"..", "~"} & {*path.parts}:
        raise UserError("files", files or "''", message)
    try:
        next(Path(os.devnull).glob(files), None)  # nothing is there: the pattern alone is looked at
    except (ValueError, NotImplementedError, UnicodeError, re.error) as error:
        raise UserError("files", files, f"{message} ({error})") from None


class InputSettings:
    """What the settings of an input of any kind, `config.inputs.NAME`, say of themselves beside their fields."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]
    FILLS: ClassVar[Mapping[str, Any]] = {}
    """Settings that every model of such an input must have, each with a value that it may get."""
    OF_MODEL: ClassVar[tuple[str, ...]] = ()
    """Settings that an evaluator can't have otherwise, since the model was trained with them, such as a size that its
    parameters have."""
    FIELD: ClassVar[str] = ""
    """The field of the data that it is made from; empty: that of the input's name."""
    DATA: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The kinds of data (`data.effect.KINDS`) on which a setting acts; one that isn't listed acts on all."""

    def check_rows(self, section: str, rows: Sequence[str], data: Data) -> None:
        """Checks that each setting that is changed acts on some rows.

        Args:
            section: that of the input, `inputs.tokens`.
            rows: those of the objective and of the evaluators, keys of `data.text.row_kinds`.
            data: how they are read.

        Raises:
            UserError: one has no effect.
        """

    def check_model(self, section: str, stated: Collection[str], model: str, kind: str | None) -> None:
        """Checks that a model reads what the user states.

        Args:
            section: that of the input, `inputs.tokens`.
            stated: the settings that flags change.
            model: its name.
            kind: of a model of text, where that is known.

        Raises:
            UserError: it doesn't.
        """


def _has_margin(preprocessing: "Preprocessing") -> bool:
    """Whether an image is resized to more than the size in one of its sides."""
    return preprocessing.resize != "squash" or preprocessing.crop_fraction != 1


@dataclasses.dataclass(frozen=True)
class Preprocessing(InputSettings):
    """How any image becomes the model's input. It travels with the checkpoint."""

    FILLS: ClassVar[Mapping[str, Any]] = {"image_size": (8, 8), "channels": 3, "num_classes": 2}
    FIELD: ClassVar[str] = "image"

    resize: str = setting(
        "squash",
        "squash: both sides to the size; short_side_crop: the short side, and the centre cut out; "
        "pad: the long side, and black borders",
        choices=("squash", "short_side_crop", "pad"),
    )
    interpolation: str = setting("bilinear", "of resizing", choices=("nearest", "bilinear", "bicubic", "lanczos"))
    antialias: bool = setting(
        True,
        "filter when shrinking (as PIL); false reads points (as tf.image.resize)",
        needs=("an interpolation other than nearest", lambda own: own.interpolation != "nearest"),
    )
    crop_fraction: float = setting(
        1.0, "part of the resized side that the centre crop keeps (224/256 = 0.875)", minimum=0.01, maximum=1.0
    )
    crop_offset: str = setting(
        "floor",
        "where the centre crop begins in an odd margin. floor: half of it, rounded down (transformers, big_vision); "
        "half_even: half of it, rounded to the even number (torchvision, timm, DeiT, DINO)",
        choices=("floor", "half_even"),
        needs=("a margin ({section}.resize=short_side_crop or crop_fraction)", _has_margin),
    )
    rounding: str = setting(
        "round",
        "of resized pixels. round: to the nearest whole level (PIL); cut: the fraction is cut off (big_vision); none: "
        "they stay as they come, in float32 (vision_transformer)",
        choices=("round", "cut", "none"),
    )
    mean: tuple[float, ...] | None = setting(None, "of each channel, 0..255; none: 127.5, so that pixels become -1..1")
    std: tuple[float, ...] | None = setting(None, "of each channel, 0..255; none: 127.5")

    def check(self) -> None:
        for field in ("mean", "std"):
            values = getattr(self, field)
            if values is not None and len(values) not in (1, 3):
                raise UserError(field, values, "takes one value for all channels, or one for each of the three")
        if self.std is not None and min(self.std) < SMALLEST_STD:
            raise UserError("std", self.std, f"must be positive, and at least {SMALLEST_STD:g}")
        if self.mean is not None and max(map(abs, self.mean)) > LARGEST_MEAN:
            raise UserError("mean", self.mean, f"must be at most {LARGEST_MEAN:g}")


RANDAUGMENT = ("{section}.randaugment_layers", lambda own: own.randaugment_layers)
"""What the settings of RandAugment need."""


@dataclasses.dataclass(frozen=True)
class Augment:
    """Variation of training images. The order is: crop, shift, flip, 3-Augment, RandAugment, colour jitter; then, on
    the device, for the whole global batch, erasing, then mixup or CutMix.
    """

    crop: str = setting(
        "none",
        "inception: a window of random area and aspect, resized; resize_random: resized `crop_scale` times larger, a "
        "random window; simple: the short side resized, 4 pixels reflected around, a random window (DeiT III); shift: "
        "padded by `shift` pixels, a random window; none: as in evaluation",
        choices=("none", "inception", "resize_random", "simple", "shift"),
    )
    crop_area: tuple[float, float] = setting(
        (0.05, 1.0),
        "range of the inception crop's fraction of the image's area",
        needs=("{section}.crop=inception", lambda own: own.crop == "inception"),
    )
    crop_scale: float = setting(
        1.15,
        "for crop=resize_random: 448 for a size of 384 is 1.1667",
        minimum=1.0,
        needs=("{section}.crop=resize_random", lambda own: own.crop == "resize_random"),
    )
    shift: int = setting(0, "pixels, for crop=shift", minimum=0)
    flip: bool = setting(False, "left and right, half of the time")
    three_augment: bool = setting(
        False, "one of greyscale, solarize and Gaussian blur (arXiv 2204.07118; with color_jitter 0.3)"
    )
    randaugment_layers: int = setting(0, "RandAugment operations per image; 0 is off", minimum=0)
    randaugment_magnitude: float = setting(
        10.0,
        "RandAugment's strength; 10 is each operation's full range",
        minimum=0.0,
        maximum=30.0,
        needs=RANDAUGMENT,
    )
    randaugment_increasing: bool = setting(
        False,
        "in place of the 16 operations of the papers' code, timm's 15 that all grow with the magnitude, which is at "
        "most 10, each left out half of the time (rand-m9-mstd0.5-inc1 is 2 layers, magnitude 9, std 0.5)",
        needs=RANDAUGMENT,
    )
    randaugment_std: float = setting(
        0.0,
        "of the magnitude, drawn for each of the increasing operations (timm's mstd)",
        minimum=0.0,
        needs=RANDAUGMENT,
    )
    color_jitter: float = setting(
        0.0, "largest relative change of brightness, contrast, saturation", minimum=0.0, maximum=1.0
    )
    mixup: float = setting(0.0, "mixup's Beta parameter; 0 is off", minimum=0.0)
    cutmix: float = setting(
        0.0, "CutMix's Beta parameter; 0 is off; with mixup, each on half of the batches", minimum=0.0
    )
    mix_probability: float = setting(
        1.0,
        "fraction of batches that mixup or CutMix acts on",
        minimum=0.0,
        maximum=1.0,
        needs=("{section}.mixup or {section}.cutmix", lambda own: own.mixup or own.cutmix),
    )
    random_erasing: float = setting(
        0.0, "fraction of images in which a rectangle becomes the mean colour", minimum=0.0, maximum=1.0
    )
    random_erasing_fill: str = setting(
        "mean",
        "noise: normal, of each normalised pixel (DeiT)",
        choices=("mean", "noise"),
        needs=("{section}.random_erasing", lambda own: own.random_erasing),
    )

    def check(self) -> None:
        low, high = self.crop_area
        if not 0 < low <= high <= 1:
            raise UserError("crop_area", self.crop_area, "must be two fractions of the area, 0 < low <= high <= 1")
        if self.randaugment_std and not self.randaugment_increasing:
            raise UserError("randaugment_std", self.randaugment_std, "acts with randaugment_increasing=true only")
        if self.crop == "shift" and self.shift == 0:
            raise UserError("shift", 0, "crop=shift needs a number of pixels (2 for images of 8, 4 for 32)")
        if self.shift and self.crop != "shift":
            raise UserError("shift", self.shift, f"acts with crop=shift only; crop is {self.crop}")
