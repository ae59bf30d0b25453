"""`model.json`: what a checkpoint must know of itself to be used by a program that has only the checkpoint."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.checkpoints import typed
from vitzoo.checkpoints.manifest import Damaged

FILE = "model.json"
FORMAT = 2
KINDS = {
    "format": typed.COUNT,
    "vitzoo": typed.TEXT,
    "model": typed.OBJECT,
    "objective": typed.OBJECT,
    "preprocessing": typed.OBJECT,
    "classes": typed.optional(typed.each(typed.TEXT, "texts")),
    "tokenizer": typed.optional(typed.OBJECT),
    "data": typed.OBJECT,
    "step": typed.STEP,
    "examples": typed.COUNT,
    "statistics": typed.each(typed.TEXT, "texts"),
}
"""What it holds, and of which kind each value is."""
_NAMES = ("resize", "interpolation", "crop_offset", "rounding")
_NUMBERS = typed.each(typed.NUMBER, "numbers")
_OF_IMAGES = {"size": typed.each(typed.SIZE, "whole numbers above 0", 2), "channels": typed.SIZE}
_OF_IMAGES_TOO = {
    **dict.fromkeys(_NAMES, typed.TEXT),
    **dict.fromkeys(("mean", "std"), typed.optional(_NUMBERS)),
    "antialias": typed.BOOL,
    "crop_fraction": typed.NUMBER,
}
PREVIOUS = "previous"
"""Besides: the step that the run saved before, which may be gone; null of its first. Older checkpoints lack it."""


def describe(
    *,
    version: str,
    model: dict,
    objective: dict,
    classes: list[str] | None,
    data: dict,
    step: int,
    examples: int,
    preprocessing: dict | None = None,
    tokenizer: dict | None = None,
    statistics: Collection[str] = (),
) -> dict[str, Any]:
    """The content of `model.json`, in the order of the published format.

    Args:
        version: vitzoo's version.
        model: `name`, `variant` and every field of the model's Config.
        objective: `name` and the objective's fields.
        classes: the classes' names by index, or None.
        data: `name`, `split` and `fingerprint` of the training data.
        step: batches consumed.
        examples: examples consumed.
        preprocessing: `size` [height, width], `channels`, `resize`, `interpolation`, `antialias`, `crop_fraction`,
            `crop_offset`, `rounding`, `mean` and `std` (one number a channel, on the 0..255 scale), for images.
        tokenizer: `kind`, `file` (below `assets/`) and `sha256`, for text; `ends`, ids that end what the model writes,
            where they are not the tokenizer's end token.
        statistics: the paths of the leaves that the model's calls change, of which no mean can be made.
    """
    values = (
        *(FORMAT, version, model, objective, preprocessing, classes, tokenizer, data, step, examples),
        sorted(statistics),
    )
    return dict(zip(KINDS, values, strict=True))


def write(folder: Path, description: dict) -> None:
    """Write `model.json` into a checkpoint's folder."""
    (folder / FILE).write_text(json.dumps(description, indent=1, allow_nan=False) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """Read a checkpoint folder's `model.json`.

    Raises:
        Damaged: it is missing, is not JSON, is of a newer format, lacks a key, or holds a
            value of another type than is written.
    """
    file = folder / FILE
    try:
        content = strict_json.read(file)
    except FileNotFoundError:
        raise Damaged(file, "is missing, so this is no checkpoint of vitzoo") from None
    except (ValueError, OSError) as error:
        raise Damaged(file, f"can't be read ({error})") from None
    typed.check(file, content, {"format": typed.COUNT})
    if (form := content["format"]) != FORMAT:
        old = "; it was written by vitzoo 0.1: convert it with that version, and read the result" if form == 1 else ""
        raise Damaged(file, f"is of format {form}, this vitzoo reads {FORMAT}{old}")
    typed.check(file, content, KINDS, {PREVIOUS: typed.optional(typed.STEP)})
    typed.check(file, content["model"], {"name": typed.TEXT}, {"variant": typed.TEXT}, "model")
    typed.check(file, content["objective"], {"name": typed.TEXT}, within="objective")
    typed.check(file, content["data"], dict.fromkeys(("name", "split", "fingerprint"), typed.TEXT), within="data")
    if content["tokenizer"] is not None:
        needed = dict.fromkeys(("kind", "file", "sha256"), typed.TEXT)
        typed.check(file, content["tokenizer"], needed, {"ends": typed.each(typed.COUNT, "ids")}, "tokenizer")
    else:
        typed.check(file, content["preprocessing"], _OF_IMAGES, _OF_IMAGES_TOO, "preprocessing")
    return content
