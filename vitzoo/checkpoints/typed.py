"""The types of what a checkpoint's JSON files hold: whoever uses a value relies on its type."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vitzoo.checkpoints.manifest import Damaged
from vitzoo.limits import LARGEST_INTEGER

_LONGEST = 100  # characters of a value in a message


class Kind(NamedTuple):
    """What a value must be, in words, and whether one is."""

    words: str
    holds: Callable[[Any], bool]


TEXT = Kind("text", lambda value: isinstance(value, str))
BOOL = Kind("true or false", lambda value: isinstance(value, bool))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
LIST = Kind("a list", lambda value: isinstance(value, list))
STEP = Kind(
    f"a whole number from 0 to {LARGEST_INTEGER:,}", lambda value: type(value) is int and 0 <= value <= LARGEST_INTEGER
)
COUNT = Kind("a whole number, at least 0", lambda value: type(value) is int and 0 <= value < 2**63)
SIZE = Kind("a whole number above 0", lambda value: type(value) is int and 0 < value <= LARGEST_INTEGER)
NUMBER = Kind("a number", lambda value: type(value) in (int, float) and abs(value) < math.inf)
ANY_NUMBER = Kind("a number", lambda value: type(value) is float or (type(value) is int and abs(value) < 2**63))


def optional(kind: Kind) -> Kind:
    """This kind, or null."""
    return Kind(f"{kind.words}, or null", lambda value: value is None or kind.holds(value))


def each(kind: Kind, plural: str, length: int | None = None) -> Kind:
    """A list of this kind, perhaps of a fixed length."""
    many = plural if length is None else f"{length} {plural}"

    def holds(value: Any) -> bool:
        fits = isinstance(value, list) and (length is None or len(value) == length)
        return fits and all(map(kind.holds, value))

    return Kind(f"a list of {many}", holds)


def by_name(kind: Kind, plural: str) -> Kind:
    """An object whose values are all of this kind."""
    return Kind(
        f"an object of {plural}", lambda value: isinstance(value, dict) and all(map(kind.holds, value.values()))
    )


def check(
    file: Path, content: Any, needed: Mapping[str, Kind], known: Mapping[str, Kind] | None = None, within: str = ""
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
