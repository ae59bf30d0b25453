"""JSON from outside: each name once, and whatever is wrong with it one sentence."""

import collections
import json
import math
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from vitzoo import spelling

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
"""A value that JSON holds, whatever it is; of what is written, a tuple is a list."""


def parsed(content: str | bytes, *, finite: bool = False) -> Any:
    """What a text of JSON holds.

    Args:
        content: the text.
        finite: numbers must be ones that JSON has: no NaN, no infinity, none that becomes one.

    Raises:
        ValueError: says what is wrong with it: it is no JSON, is nested too deeply, or names a field twice.
    """
    numbers: dict[str, Any] = {"parse_constant": _no_number, "parse_float": _finite} if finite else {}
    try:
        return json.loads(content, object_pairs_hook=_each_once, **numbers)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except _Twice as twice:
        raise ValueError(f"names the field {twice.args[0]!r} twice") from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            most = sys.get_int_max_str_digits()
            raise ValueError(f"holds a whole number of more than {most:,} digits, too long to be read") from None
        raise ValueError(f"is not JSON: {error}") from None


def read(file: Path) -> Any:
    """What a file of JSON holds.

    Raises:
        OSError: it can't be read, or is a pipe or a device, which may never end.
        ValueError: as `parsed`.
    """
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError("is no ordinary file")
    return parsed(file.read_bytes())


def record_of(content: str | bytes) -> dict[str, JSON]:
    """The record that a line of JSON holds, its fields' names normalised.

    Raises:
        ValueError: as `parsed`, or it is no object, or names a field twice in two spellings.
    """
    value = parsed(content)
    if not isinstance(value, dict):
        raise ValueError("is not an object with fields")
    return spelling.by_name(value)


class _Twice(Exception):
    """A name that an object holds twice."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise _Twice(collections.Counter(name for name, _ in pairs).most_common(1)[0][0])
    return record


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is larger than a number can be")
    return number
