"""Which examples a split names, in TFDS's syntax for every kind of data: `train[:99%]`, `a[100:200]+b`, `all`."""

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence

from vitzoo import names
from vitzoo.errors import Refused

_PART = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<slice>[^\]]*)\])?")
_BOUND = re.compile(r"(?P<value>-?[0-9][0-9_]{0,20}(?:\.[0-9]{1,20})?)?(?P<unit>%)?")
_SYNTAX = "is not a split; write train, train[:99%], train[100:200], train+test or all"


class NoSuchSplit(Refused):
    """A split that the data don't have."""

    there: tuple[str, ...] = ()
    """The names of those they have."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """The examples `start` to `stop` (exclusive) of a named split."""

    name: str
    start: int
    stop: int


def parse(expression: str, counts: Mapping[str, int]) -> list[Piece]:
    """The pieces that a split expression stands for, in order, rounded as TFDS rounds (to the nearest example).

    Args:
        expression: the split as the user wrote it.
        counts: examples of each split that exists.
    Raises:
        Refused: the syntax is unknown, a split doesn't exist, a slice lies outside, or nothing is left.
    """
    parts = [names.normalise(part) for part in expression.split("+")]
    pieces = [piece for part in parts for piece in _pieces(part, expression, counts)]
    if not any(piece.stop > piece.start for piece in pieces):
        sizes = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise Refused("data.split", expression, f"empty split: no example is in it (there are: {sizes})")
    return [piece for piece in pieces if piece.stop > piece.start]


def _pieces(part: str, expression: str, counts: Mapping[str, int]) -> Sequence[Piece]:
    match = _PART.fullmatch(part)
    if not match:
        raise Refused("data.split", expression, _SYNTAX)
    name, bounds = match["name"], match["slice"]
    name = names.find(name, counts) or name
    if name == "all" and "all" not in counts:
        if bounds is not None:
            raise Refused("data.split", expression, "`all` can't be sliced; slice the splits it is made of")
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
    sides = [_BOUND.fullmatch(side.strip()) for side in text.split(":")]
    if len(sides) != 2 or None in sides or not any(side and side["value"] for side in sides):
        raise Refused("data.split", expression, _SYNTAX)
    percent = any(side and side["unit"] for side in sides)
    values = [_position(side["value"] if side else None, percent, expression, count) for side in sides]
    start, stop = (0 if values[0] is None else values[0]), (count if values[1] is None else values[1])
    if max(abs(start), abs(stop)) > count:
        raise Refused("data.split", expression, f"the slice lies outside: there are {count:,} examples")
    return (start + count if start < 0 else start), (stop + count if stop < 0 else stop)


def _position(value: str | None, percent: bool, expression: str, count: int) -> int | None:
    if not value:
        return None
    if percent:
        if abs(float(value)) > 100:
            raise Refused("data.split", expression, "a percentage lies between -100 and 100")
        return round(float(value) * count / 100.0)
    if "." in value:
        raise Refused("data.split", expression, "a slice of examples takes whole numbers; for a share write %")
    return int(value)
