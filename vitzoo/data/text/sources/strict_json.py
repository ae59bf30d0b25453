"""A line of JSON as a record."""

import json
from typing import Any


def parsed(content: str | bytes) -> Any:
    """What a line of JSON holds.

    Raises:
        ValueError: says what is wrong with the line: it is no JSON, is nested too deeply, or names a field twice.
    """
    try:
        return json.loads(content, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except _Twice as twice:
        raise ValueError(f"names the field {twice.args[0]!r} twice") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None


class _Twice(Exception):
    """A name that an object holds twice."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return record
