"""`model.json`: what a checkpoint must know of itself to be used by a program that has only the checkpoint."""

import json
from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.checkpoints.manifest import Damaged

FILE = "model.json"
FORMAT = 1
KEYS = ("format", "vitzoo", "model", "objective", "preprocessing", "classes", "tokenizer", "data", "step", "examples")
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
        tokenizer: `kind`, `file` (below `assets/`) and `sha256`, for text.
    """
    values = (FORMAT, version, model, objective, preprocessing, classes, tokenizer, data, step, examples)
    return dict(zip(KEYS, values, strict=True))


def write(folder: Path, description: dict) -> None:
    """Write `model.json` into a checkpoint's folder."""
    (folder / FILE).write_text(json.dumps(description, indent=1, allow_nan=False) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """Read a checkpoint folder's `model.json`.

    Raises:
        Damaged: it is missing, is not JSON, lacks a key or is of a newer format.
    """
    file = folder / FILE
    try:
        content = strict_json.read(file)
        form = content["format"]
    except FileNotFoundError:
        raise Damaged(file, "is missing, so this is no checkpoint of vitzoo") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise Damaged(file, f"can't be read ({error})") from None
    if form != FORMAT:
        raise Damaged(file, f"is of format {form}, this vitzoo reads {FORMAT}")
    if missing := [key for key in KEYS if key not in content]:
        raise Damaged(file, f"lacks {', '.join(missing)}")
    return content
