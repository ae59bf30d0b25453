"""Which examples a split names, in TFDS's syntax for every kind of data: `train[:99%]`, `a[100:200]+b`, `all`."""

import dataclasses
import difflib
import itertools
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from vitzoo import literals, spelling
from vitzoo.data.duplicates import hold_out, numbered
from vitzoo.errors import UserError

ALL = "all"
"""All splits together."""
SPLIT_NAMES = {
    "train": ("train", "training", "train_set", "trainset"),
    "validation": ("validation", "val", "valid", "dev", "val_set", "validation_set"),
    "test": ("test", "testing", "test_set", "testset"),
}
_STANDARD = {alias: name for name, aliases in SPLIT_NAMES.items() for alias in aliases}
SEED = 0  # of splits that vitzoo draws
_PART = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<slice>[^\]]*)\])?")
_SYNTAX = "is not a split; write train, train[:99%], train[100:200], train+test or all"


class NoSuchSplit(UserError):
    """A split that the data don't have."""

    there: tuple[str, ...] = ()
    """The names of those they have."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """The examples `start` to `stop` (exclusive) of a named split."""

    name: str
    start: int
    stop: int


def filled(counts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """The splits that have examples, and a note of each that has none; where none has any, all are given."""
    have = [name for name, count in counts.items() if count]
    return have or list(counts), [f"warning: {name} would be empty" for name in counts if have and name not in have]


def parse(expression: str, counts: Mapping[str, int]) -> list[Piece]:
    """The pieces that a split expression stands for, in order, rounded as TFDS rounds (to the nearest example).

    Args:
        expression: the split as the user wrote it.
        counts: examples of each split that exists.

    Raises:
        UserError: the syntax is unknown, a split doesn't exist, a slice lies outside, nothing is left, or an example is
            named twice.
    """
    parts = [spelling.normalise(part) for part in expression.split("+")]
    pieces = [piece for part in parts for piece in _pieces(part, expression, counts)]
    if not any(piece.stop > piece.start for piece in pieces):
        sizes = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise UserError("data.split", expression, f"empty split: no example is in it (there are: {sizes})")
    pieces = [piece for piece in pieces if piece.stop > piece.start]
    if twice := overlap(pieces):
        count = twice.stop - twice.start
        counted = f"{twice.name}[{twice.start}:{twice.stop}] ({count:,} example{'s' * (count > 1)})"
        raise UserError("data.split", expression, f"names {counted} twice; name each example once")
    return pieces


def _pieces(part: str, expression: str, counts: Mapping[str, int]) -> Sequence[Piece]:
    match = _PART.fullmatch(part)
    if not match:
        raise UserError("data.split", expression, _SYNTAX)
    name, bounds = match["name"], match["slice"]
    name = spelling.find(name, counts) or name
    if name == ALL and name in counts and len(counts) > 1 and bounds is None:
        every = "+".join(f"{one}[:100%]" if one == ALL else one for one in counts)
        message = f"is all splits together, and these data have one of this name too; write {every} for all of them"
        raise UserError("data.split", expression, f"`all` {message}, all[:100%] for the one")
    if name == ALL and name not in counts:
        if bounds is not None:
            raise UserError("data.split", expression, "`all` can't be sliced; slice the splits it is made of")
        return [Piece(split, 0, count) for split, count in counts.items()]
    if name not in counts:
        near = difflib.get_close_matches(name, counts, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        refusal = NoSuchSplit("data.split", expression, f"no split {name!r}; {hint}there are: {', '.join(counts)}")
        refusal.there = tuple(counts)
        raise refusal
    start, stop = (0, counts[name]) if bounds is None else _bounds(bounds, expression, counts[name])
    return [Piece(name, start, stop)]


def _bounds(text: str, expression: str, count: int) -> tuple[int, int]:
    sides = [side.strip() for side in text.split(":")]
    if len(sides) != 2 or not any(sides):
        raise UserError("data.split", expression, _SYNTAX)
    percent = any(side.endswith("%") for side in sides)
    values = [_position(side.removesuffix("%"), percent, expression, count) if side else None for side in sides]
    start, stop = (0 if values[0] is None else values[0]), (count if values[1] is None else values[1])
    if max(abs(start), abs(stop)) > count:
        raise UserError("data.split", expression, f"the slice lies outside: there are {count:,} examples")
    return (start + count if start < 0 else start), (stop + count if stop < 0 else stop)


def _position(text: str, percent: bool, expression: str, count: int) -> int | None:
    if not (text[:1] == "-" or text[:1].isdigit()):
        raise UserError("data.split", expression, _SYNTAX)
    if percent:
        return round(_percentage(text, expression) * count / 100.0)
    if (position := literals.integer(text)) is None:
        whole = "a slice of examples takes whole numbers, in the digits 0 to 9; for a fraction write %"
        raise UserError("data.split", expression, whole)
    return position


def _percentage(text: str, expression: str) -> float:
    try:
        share = literals.number(text)
    except ValueError as error:
        raise UserError("data.split", expression, f"{text}% {error}") from None
    if share is None:
        raise UserError("data.split", expression, f"{text}% is no number in the digits 0 to 9; {_SYNTAX}")
    if not abs(share) <= 100:
        raise UserError("data.split", expression, "a percentage lies between -100 and 100")
    return share


def overlap(pieces: Sequence[Piece]) -> Piece | None:
    """The first examples that pieces name twice; None where each is named once."""
    ordered = sorted(pieces, key=lambda piece: (piece.name, piece.start))
    for one, other in itertools.pairwise(ordered):
        if one.name == other.name and other.start < one.stop:
            return Piece(one.name, other.start, min(one.stop, other.stop))
    return None


def standard_split(name: str) -> str | None:
    """train, validation or test for their usual names, in any case; None for others."""
    return _STANDARD.get(spelling.normalise(name).lower())


def split_below(path: pathlib.PurePath, levels: int, split: str | None) -> pathlib.PurePath | None:
    """The outermost folder or file of a path that has a split's name and lies where no split is looked for.

    Args:
        path: relative to the data's folder; of a file its ending is no part of its name.
        levels: the first ones, which have a meaning: that of the split, or of the class.
        split: of the file; a name that says the same once more is none.
    """
    for depth in range(levels, len(path.parts)):
        name = path.parts[depth] if depth + 1 < len(path.parts) else path.stem
        if (stated := standard_split(name)) and stated != split:
            return type(path)(*path.parts[: depth + 1])
    return None


def carved(keys: np.ndarray, fraction: float) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Train and validation of data that states no splits: a fixed permutation, each part in the data's order; and a
    note that says so. At least one example is validation, and one train; equal examples are in one part.

    Args:
        keys: of every example, the same for equal ones (of their inputs, labels aside).
        fraction: of the examples, to be validation.
    """
    count = len(keys)
    if fraction == 0 or count < 2:
        return {"train": np.arange(count)}, ()
    ranked = np.random.RandomState(SEED).permutation(count)
    chosen = hold_out(ranked, numbered(keys), min(max(1, round(count * fraction)), count - 1))
    if not len(chosen):
        return {"train": np.arange(count)}, ("there is no validation: all examples are the same",)
    held = np.zeros(count, bool)
    held[chosen] = True
    note = f"validation is {len(chosen):,} of {count:,} examples, by a fixed permutation (data.validation_fraction)"
    return {"train": np.flatnonzero(~held), "validation": np.flatnonzero(held)}, (note,)
