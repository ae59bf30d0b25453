"""The JSON files of a checkpoint: `model.json`, which describes it, and the item `loop`, what the loop remembers.

Whoever uses a value of them relies on its type, which is checked here.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NotRequired, TypedDict, cast

from vitzoo import strict_json
from vitzoo.checkpoints.manifest import Damaged
from vitzoo.data.described import ModelDescription, Named
from vitzoo.limits import LARGEST_INTEGER
from vitzoo.strict_json import JSON

_LONGEST = 100  # characters of a value in a message


class DataDescription(TypedDict):
    """The training data: their name, the split, and what they are told apart by."""

    name: str
    split: str
    fingerprint: str


class Description(ModelDescription):
    """The content of `model.json`; see `describe`."""

    format: int
    vitzoo: str
    objective: Named
    data: DataDescription
    step: int
    examples: int
    statistics: list[str]
    previous: NotRequired[int | None]
    frozen: NotRequired[Mapping[str, Mapping[str, JSON]]]
    config: NotRequired[Mapping[str, JSON]]


class JsonKind(NamedTuple):
    """What a value must be, in words, and whether one is."""

    words: str
    holds: Callable[[Any], bool]


TEXT = JsonKind("text", lambda value: isinstance(value, str))
BOOL = JsonKind("true or false", lambda value: isinstance(value, bool))
OBJECT = JsonKind("an object", lambda value: isinstance(value, dict))
LIST = JsonKind("a list", lambda value: isinstance(value, list))
STEP = JsonKind(
    f"a whole number from 0 to {LARGEST_INTEGER:,}", lambda value: type(value) is int and 0 <= value <= LARGEST_INTEGER
)
COUNT = JsonKind("a whole number, at least 0", lambda value: type(value) is int and 0 <= value < 2**63)
SIZE = JsonKind("a whole number above 0", lambda value: type(value) is int and 0 < value <= LARGEST_INTEGER)
NUMBER = JsonKind("a number", lambda value: type(value) in (int, float) and abs(value) < math.inf)
ANY_NUMBER = JsonKind("a number", lambda value: type(value) is float or (type(value) is int and abs(value) < 2**63))


def optional(kind: JsonKind) -> JsonKind:
    """This kind, or null."""
    return JsonKind(f"{kind.words}, or null", lambda value: value is None or kind.holds(value))


def each(kind: JsonKind, plural: str, length: int | None = None) -> JsonKind:
    """A list of this kind, perhaps of a fixed length."""
    many = plural if length is None else f"{length} {plural}"

    def holds(value: Any) -> bool:
        fits = isinstance(value, list) and (length is None or len(value) == length)
        return fits and all(map(kind.holds, value))

    return JsonKind(f"a list of {many}", holds)


def by_name(kind: JsonKind, plural: str) -> JsonKind:
    """An object whose values are all of this kind."""
    return JsonKind(
        f"an object of {plural}", lambda value: isinstance(value, dict) and all(map(kind.holds, value.values()))
    )


def check(
    file: Path,
    content: JSON,
    needed: Mapping[str, JsonKind],
    known: Mapping[str, JsonKind] | None = None,
    within: str = "",
) -> None:
    """Looks at the values of an object of JSON.

    Args:
        file: where it stands.
        content: the object, whatever it is.
        needed: the kinds of what must be there, by name.
        known: the kinds of what may be there.
        within: the name of the value of the file that this is, `model`.

    Raises:
        Damaged: it is no object, lacks a needed value, or holds one of another kind; names file, value and kind.
    """
    if not isinstance(content, dict):
        raise Damaged(file, f"holds {_shown(content)}, where an object is right")
    prefix = f"{within}." if within else ""
    if missing := [prefix + name for name in needed if name not in content]:
        raise Damaged(file, f"lacks {', '.join(missing)}")
    for name, kind in {**needed, **(known or {})}.items():
        if name in content and not kind.holds(content[name]):
            raise Damaged(file, f"its {prefix}{name} is {_shown(content[name])}, where {kind.words} is right")


def _shown(value: Any) -> str:
    """A value as it stands in the file, cut to a line."""
    text = json.dumps(value) if type(value) is not int or abs(value) < 2**63 else "a number of many digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


FILE = "model.json"
FORMAT = 2
KINDS = {
    "format": COUNT,
    "vitzoo": TEXT,
    "model": OBJECT,
    "objective": OBJECT,
    "inputs": OBJECT,
    "classes": optional(each(TEXT, "texts")),
    "data": OBJECT,
    "step": STEP,
    "examples": COUNT,
    "statistics": each(TEXT, "texts"),
}
"""What it holds, and of which kind each value is."""
_NAMES = ("resize", "interpolation", "crop_offset", "rounding")
_NUMBERS = each(NUMBER, "numbers")
_OF_IMAGES = {"size": each(SIZE, "whole numbers above 0", 2), "channels": SIZE}
_OF_IMAGES_TOO = {
    **dict.fromkeys(_NAMES, TEXT),
    **dict.fromkeys(("mean", "std"), optional(_NUMBERS)),
    "antialias": BOOL,
    "crop_fraction": NUMBER,
}
PREVIOUS: Final = "previous"
"""Besides: the step that the run saved before, which may be gone; null of its first. Older checkpoints lack it."""
FROZEN: Final = "frozen"
"""Besides, of an objective that learns from other checkpoints: what each is told apart by, by the setting's name."""

CONFIG: Final = "config"
"""Besides, of what a run saved: the values of its settings, without those that may change when it is resumed."""


def describe(
    *,
    version: str,
    model: Mapping[str, JSON],
    objective: Mapping[str, JSON],
    classes: list[str] | None,
    data: Mapping[str, JSON],
    step: int,
    examples: int,
    inputs: Mapping[str, Mapping[str, JSON]],
    statistics: Collection[str] = (),
    frozen: Mapping[str, Mapping[str, JSON]] = MappingProxyType({}),
    config: Mapping[str, JSON] = MappingProxyType({}),
) -> Description:
    """The content of `model.json`, in the order of the published format.

    Args:
        version: vitzoo's version.
        model: `name`, `variant` and every field of the model's Config.
        objective: `name` and the objective's fields.
        classes: the classes' names by index, or None.
        data: `name`, `split` and `fingerprint` of the training data.
        step: batches consumed.
        examples: examples consumed.
        inputs: for each input by name its `kind` and how it is made. Of images: `size` [height, width], `channels`,
            `resize`, `interpolation`, `antialias`, `crop_fraction`, `crop_offset`, `rounding`, `mean` and `std` (one
            number a channel, on the 0..255 scale). Of text: its settings, and `tokenizer` with `kind`, `file` (below
            `assets/`) and `sha256`; `ends`, ids that end what the model writes, where they are not the tokenizer's end
            token.
        statistics: the paths of the leaves that the model's calls change, of which no mean can be made.
        frozen: `checkpoint`, `step`, `weights` and `crc32` of what the objective learns from, by setting.
        config: `config.comparison.meaning_of` the run's values.
    """
    values = (FORMAT, version, model, objective, inputs, classes, data, step, examples, sorted(statistics))
    besides = {FROZEN: dict(frozen), CONFIG: dict(config)}
    content = dict(zip(KINDS, values, strict=True)) | {name: value for name, value in besides.items() if value}
    return cast(Description, content)


def write_description(folder: Path, description: Description) -> None:
    """Write `model.json` into a checkpoint's folder."""
    (folder / FILE).write_text(json.dumps(description, indent=1, allow_nan=False) + "\n")


def read_description(folder: Path) -> Description:
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
    check(file, content, {"format": COUNT})
    if (form := content["format"]) != FORMAT:
        old = "; it was written by vitzoo 0.1: convert it with that version, and read the result" if form == 1 else ""
        raise Damaged(file, f"is of format {form}, this vitzoo reads {FORMAT}{old}")
    check(file, content, KINDS, {PREVIOUS: optional(STEP), FROZEN: by_name(OBJECT, "objects"), CONFIG: OBJECT})
    check(file, content["model"], {"name": TEXT}, {"variant": TEXT}, "model")
    check(file, content["objective"], {"name": TEXT}, within="objective")
    check(file, content["data"], dict.fromkeys(("name", "split", "fingerprint"), TEXT), within="data")
    for name, own in content["inputs"].items():
        _check_input(file, name, own)
    return content


def _check_input(file: Path, name: str, own: Any) -> None:
    within = f"inputs.{name}"
    check(file, {name: own}, {name: OBJECT}, within="inputs")
    check(file, own, {"kind": TEXT}, within=within)
    if own["kind"] == "text":
        check(file, own, {"tokenizer": OBJECT}, within=within)
        needed = dict.fromkeys(("kind", "file", "sha256"), TEXT)
        check(file, own["tokenizer"], needed, {"ends": each(COUNT, "ids")}, f"{within}.tokenizer")
    elif own["kind"] == "image":
        check(file, own, _OF_IMAGES, _OF_IMAGES_TOO, within)


COUNTERS: Final = ("step", "updates", "skipped")


class Best(TypedDict):
    """The checkpoint that is kept for being the best: its step, and the value of the metric that says so."""

    step: int
    value: float


class SavedWindow(TypedDict):
    """What was measured since the last line of the metrics."""

    sums: dict[str, list[float]]
    last: dict[str, float]
    skipped_in_a_row: int
    uncounted: NotRequired[int]


class Loop(TypedDict):
    """What the loop remembers: batches, updates and steps that were skipped, and what a run needs to go on; before the
    first batch, the step alone.
    """

    step: int
    updates: NotRequired[int]
    skipped: NotRequired[int]
    best: NotRequired[Best | None]
    evaluated: NotRequired[int]
    not_improved: NotRequired[int]
    total_steps: NotRequired[int]
    evaluated_data: NotRequired[dict[str, str]]
    averaged: NotRequired[list[JSON]]
    window: NotRequired[SavedWindow | None]


_KNOWN = {
    "best": optional(OBJECT),
    "evaluated": STEP,
    "not_improved": STEP,
    "total_steps": STEP,
    "evaluated_data": by_name(TEXT, "texts"),
    "averaged": LIST,
    "window": optional(OBJECT),
}
_WINDOW = {
    "sums": by_name(each(ANY_NUMBER, "numbers", 2), "pairs of numbers"),
    "last": by_name(ANY_NUMBER, "numbers"),
    "skipped_in_a_row": STEP,
}


def read_loop(folder: Path) -> Loop:
    """The loop's plain values in a checkpoint.

    Args:
        folder: the step's.

    Raises:
        Damaged: they can't be read, or one is missing or of another type than is saved.
    """
    file = folder / "loop" / "metadata"
    try:
        values = strict_json.read(file)
    except (ValueError, OSError) as error:
        raise Damaged(file, f"can't be read ({error})") from None
    check(file, values, dict.fromkeys(COUNTERS, STEP), _KNOWN)
    if values.get("best") is not None:
        check(file, values["best"], {"step": STEP, "value": NUMBER}, within="best")
    if values.get("window") is not None:
        check(file, values["window"], _WINDOW, {"uncounted": STEP}, within="window")
    return values
