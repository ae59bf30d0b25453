"""JSON files beside weights (`config.json`, an index, settings of tokenizers): one reader, which trusts nothing."""

from pathlib import Path
from typing import Any

from vitzoo.data.text.unicode import HALF, is_whole
from vitzoo.errors import UserError
from vitzoo.strict_json import parsed

LARGEST = 2**26  # bytes; a model of 10,000 arrays has an index of about a million
DEEPEST = 32  # lists and objects within each other
SHOWN = 80  # characters of a value in a message
KINDS: dict[type, str] = {dict: "an object of settings", list: "a list", str: "text", type(None): "null"}
"""In words; all others are numbers, or true or false."""


def read_json(file: Path, kind: type = dict) -> Any:
    """The content of a file.

    Args:
        file: which must be there.
        kind: `dict` or `list`, what it must hold.

    Raises:
        UserError: it can't be read, is no JSON, names a field twice, is nested too deeply or too large, holds half a
            character or another kind of value.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise ValueError(f"has more than {LARGEST:,} bytes")
        content = parsed(file.read_text(encoding="utf-8-sig"), finite=True)
        _check(content)
    except UnicodeDecodeError:
        raise UserError(str(file), None, "can't be read: is not UTF-8") from None
    except OSError as error:
        raise UserError(str(file), None, f"can't be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(str(file), None, f"can't be read: {error}") from None
    if not isinstance(content, kind):
        found = KINDS.get(type(content), str(content)[:SHOWN])
        raise UserError(str(file), None, f"holds {found}, where {KINDS[kind]} is right")
    return content


def _check(content: Any) -> None:
    """Refuses text that isn't whole, and nesting that what looks at the content couldn't follow."""
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        for value in level:
            if isinstance(value, str) and not is_whole(value):
                raise ValueError(f"{value[:40]!a} {HALF}")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in ([*value, *value.values()] if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ValueError("is nested too deeply")


def shown(value: Any) -> str:
    """A value in a message, with its type to be seen (`'12'` isn't `12`), shortened."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a value of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
