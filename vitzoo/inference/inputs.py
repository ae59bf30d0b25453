"""What is to be predicted: images (files, folders, in memory), texts, pairs and words, each with what names its row."""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vitzoo import spelling
from vitzoo.data.file_tree import files_below
from vitzoo.data.settings import Data
from vitzoo.data.sources.fields import GIVEN, asked_for, form_of, several_fit
from vitzoo.data.sources.folder import is_image
from vitzoo.data.sources.values import converter
from vitzoo.data.text.lines import HALF, is_whole, read_lines
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.paths import named_path, readable_path
from vitzoo.schema import build
from vitzoo.strict_json import parsed


@dataclasses.dataclass(frozen=True)
class Input:
    """One image: the name its row gets, and a path, bytes, a PIL image or an array; or why there is none."""

    name: str
    image: Any = None
    error: str | None = None


def gather(inputs: Any) -> list[Input]:
    """Every image of the inputs, in order.

    Args:
        inputs: a path, bytes, a PIL image or an array `[height, width]` or `[height, width, channels]`; a folder, for
            the images in it at any depth, by sorted relative path; an array `[n, height, width, channels]`; or several
            of these. Images in memory are named `image 0`, `image 1` ... by their place in the result. A path that
            doesn't exist, or a folder without images, is named with its `error`.

    Raises:
        UserError: no path is of any use, or there is nothing at all.
    """
    found: list[Input] = []
    refusals: list[UserError] = []
    for one in listed(inputs):
        if not isinstance(one, str | os.PathLike):
            _check_picture(one)
            found += [Input(f"image {len(found) + index}", image) for index, image in enumerate(stacked(one))]
            continue
        try:
            found += [Input(str(path), path) for path in files_at(named_path("inputs", one))]
        except UserError as refusal:
            refusals.append(refusal)
            found.append(Input(str(one), error=refusal.message))
    if not found:
        raise UserError("inputs", None, "name an image file or a folder")
    if len(refusals) == len(found):
        raise refusals[0]
    return found


def listed(inputs: Any) -> Iterable[Any]:
    """The inputs as several."""
    single = isinstance(inputs, str | bytes | os.PathLike | Image.Image) or hasattr(inputs, "__array__")
    if single:
        return [inputs]
    if isinstance(inputs, Iterable) and not isinstance(inputs, Mapping):
        return list(inputs)
    shown = "None" if inputs is None else inputs
    raise UserError(
        "inputs", shown, f"is of the type {type(inputs).__name__}; must be files, folders, pictures or arrays"
    )


def _check_picture(one: Any) -> None:
    """Refuses what is no picture: a number would be taken for an open file of the process."""
    if isinstance(one, bytes | Image.Image) or hasattr(one, "__array__"):
        return
    shown = "None" if one is None else one
    raise UserError(
        "inputs", shown, f"is of the type {type(one).__name__}; must be a file, a folder, a picture or an array"
    )


def stacked(image: Any) -> Iterable[Any]:
    """The images of an array `[n, height, width, channels]`; anything else is one image."""
    image = np.asarray(image) if hasattr(image, "__array__") else image
    return image if isinstance(image, np.ndarray) and image.ndim == 4 else [image]


def files_at(path: Path) -> list[Path]:
    """The file itself, or a folder's images by sorted relative path. Hidden files and other kinds are left out."""
    if path.is_dir():
        found = files_below([path], path, [])[0] or []
        images = [file for file in found if is_image(file)]
        if not images:
            raise UserError("inputs", path, "no images in this folder (.jpg, .png, .webp ...)")
        return sorted(images, key=lambda file: file.relative_to(path).parts)
    if not path.exists():
        raise UserError("inputs", path, "no such file or folder")
    return [readable_path("inputs", path)]


FORMS = (("words",), ("first", "second"), ("text",), ("prompt",), ("source",))
JSON_LINES = (".jsonl", ".ndjson")
WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")


@dataclasses.dataclass(frozen=True)
class TextInput:
    """One text (`text`), pair (`first`, `second`) or list of `words`; or why there is none."""

    fields: dict[str, Any]
    error: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The text, or both of a pair."""
        fields = self.fields
        if "words" in fields:
            return (" ".join(fields["words"]),)
        return (fields["text"],) if "text" in fields else (fields["first"], fields["second"])

    @property
    def words(self) -> list[str]:
        """The words: those given, else what a text falls into, each punctuation mark by itself."""
        return self.fields["words"] if "words" in self.fields else WORD.findall(" ".join(self.parts))

    @property
    def name(self) -> str:
        """It in one line, for the terminal."""
        line = " ".join(" | ".join(self.parts).split())
        return line if len(line) <= 60 else f"{line[:59]}…"


def gather_texts(inputs: Any, text: Text) -> list[TextInput]:
    """The texts of inputs, in order.

    Args:
        inputs: a text, a record with the fields of training (`{"text": ...}`, `{"first": ..., "second": ...}`,
            `{"words": [...]}`; others don't matter), or several of these.
        text: how a checkpoint names the fields.

    Raises:
        UserError: there is none, one is neither text nor record or holds no text, or a record lacks the fields.
    """
    if not isinstance(inputs, Iterable):
        raise UserError(
            "inputs", inputs, f"is of the type {type(inputs).__name__}; must be texts, or records of fields"
        )
    several = [inputs] if isinstance(inputs, str | Mapping) else list(inputs)
    if not several:
        raise UserError("inputs", None, "there is no text")
    return [_as_input(one, number, text) for number, one in enumerate(several, 1)]


def read_texts(file: str | Path) -> list[Any]:
    """What a file holds: of `.jsonl` a record in each line, else (and of `-`, standard input) a text in each line;
    empty lines are left out.

    Raises:
        UserError: it can't be read, or a line isn't JSON.
    """
    lines = read_lines("--input", file)
    if Path(file).suffix.lower() not in JSON_LINES:
        found: list[Any] = [line for line in lines if line.strip()]
    else:
        found = [_parsed(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UserError("--input", file, "holds no text")
    return found


def _parsed(file: str | Path, number: int, line: str) -> Any:
    try:
        return parsed(line)
    except ValueError as error:
        raise UserError("--input", file, f"line {number} {error}") from None


def _as_input(one: Any, number: int, text: Text) -> TextInput:
    if isinstance(one, str):
        if not is_whole(one):
            raise UserError("inputs", ascii(one[:40]), f"text {number} {HALF}")
        return TextInput({"text": one})
    if not isinstance(one, Mapping):
        raise UserError("inputs", type(one).__name__, f"text {number} is neither text nor a record of fields")
    try:
        one = spelling.by_name({name: value for name, value in one.items() if isinstance(name, str)})
    except ValueError as error:
        raise UserError("inputs", None, f"text {number} {error}") from None
    data = build(Data, {**text.fields, "name": "inputs"}, "text.fields")
    for setting, name in asked_for(data, GIVEN).items():
        if name not in one:
            problem = f"text {number} has no field {name!r}, which data.{setting} named in training"
            raise UserError("inputs", ", ".join(map(str, one)), problem)
    own = form_of(one, data, FORMS, GIVEN)
    if own is None:
        forms = "; ".join(" + ".join(form) for form in FORMS[:3])
        raise UserError("inputs", ", ".join(map(str, one)), f"the fields of text {number} are none of: {forms}")
    if several := several_fit(own, one, data):
        raise UserError("inputs", ", ".join(map(str, one)), f"text {number}: {several.partition('; ')[0]}; keep one")
    try:
        found = converter(own)(one)
    except ValueError as error:
        raise UserError("inputs", None, f"text {number}: {error}") from None
    return TextInput(found if {"words", "first"} & set(found) else {"text": next(iter(found.values()))})
