"""Values whose type nothing says: what a text writes, and what of Python's a config may hold.

Numbers are the digits 0 to 9: Python itself reads `1_000` and digits of other scripts too, and 1e-400 as 0.
"""

import ast
import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

from vitzoo.errors import UserError, as_text
from vitzoo.spelling import dotted

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
MOST_DIGITS = 4300  # that Python reads; more take a time that grows with their square
LARGEST_BITS = 1024  # of any integer, as large as floats of 64 bits go
DEEPEST = 20  # levels of a config
MOST_VALUES = 1_000_000  # of a config


def integer(text: str) -> int | None:
    """The integer that a text writes in the digits 0 to 9, with or without a sign; None where it writes none."""
    text = text.strip(" \t")
    return int(text) if _INTEGER.fullmatch(text) and len(text) <= MOST_DIGITS else None


def counted(text: str) -> int | None:
    """The integer that a text writes in the digits 0 to 9 alone; None where it writes none."""
    return integer(text) if text[:1].isdigit() and text[-1:].isdigit() else None


def number(text: str) -> float | None:
    """The number that a text writes in decimals, `-1.5`, `.5`, `1e-3`, and also `inf` and `nan`; None for other texts.

    Raises:
        ValueError: it isn't 0 and yet so near that the computer makes 0 of it.
    """
    text = text.strip(" \t")
    if not (_NUMBER.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        return None
    value = float(text)
    if value == 0 and re.search("[1-9]", text.lower().partition("e")[0]):
        raise ValueError("is too near to 0 for the computer to tell it from 0")
    return value


class FlagText(str):
    """A value typed on a command line, still to be read as whatever type its field has.

    A plain `str`, as a file holds it, is a string and nothing else: `total_steps = "10"` in a file is refused.
    """


def literal(text: str) -> Any:
    """What a flag's text most plainly is, where no type says: a number, true, false, none, a list, or else a string."""
    lowered = text.strip().lower()
    if lowered in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[lowered]
    if re.fullmatch("[0-9.eE+-]+", lowered):
        return _plain_number(text)
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = ast.literal_eval(tree)
        plainly = isinstance(value, str | tuple | list | dict) and _are_decimals(tree, text.strip())
        return plain(value) if plainly else str(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError, UserError):
        return str(text)


def _plain_number(text: str) -> int | float | str:
    """A number where a text writes one that can be computed with; else the text, to be refused as what it is."""
    if (whole := integer(text)) is not None:
        return whole
    try:
        value = number(text)
    except ValueError:
        return str(text)
    return str(text) if value is None or not math.isfinite(value) else value


def _are_decimals(tree: ast.AST, text: str) -> bool:
    """Whether all numbers of an expression are written in the digits 0 to 9."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) in (int, float)]
    return not any(isinstance(_plain_number(ast.get_source_segment(text, node) or ""), str) for node in found)


def plain(value: Any, field: str = "") -> Any:
    """A value of a config as what JSON can hold: containers (lists, ConfigDicts) as tuples and dicts of their own,
    NumPy's and JAX's single numbers as Python's.

    Args:
        value: as a file states it.
        field: its name.

    Raises:
        UserError: it is, or holds, something else, such as a set, bytes, an array or a function; a key is no text; it
            holds itself or is nested as no config is.
    """
    return _Plain().value(value, field, 0)


@runtime_checkable
class LikeMapping(Protocol):
    """What other libraries have for dicts: ml_collections' ConfigDict."""

    def items(self) -> Any:
        """Pairs of keys and values."""
        ...

    def to_dict(self) -> dict:
        """All of it as a dict."""
        ...


class _Plain:
    def __init__(self) -> None:
        self.count = 0

    def value(self, value: Any, field: str, depth: int) -> Any:
        self.count += 1
        if depth > DEEPEST or self.count > MOST_VALUES:
            name = ".".join(field.split(".")[:3]) or "config"
            raise UserError(name, None, "is nested too deeply, or holds itself; a config is a few levels of dicts")
        if not isinstance(value, Mapping | type) and isinstance(value, LikeMapping):
            value = value.to_dict()
        if isinstance(value, Mapping):
            return {self.key(key, field): self.value(value[key], dotted(field, str(key)), depth + 1) for key in value}
        if isinstance(value, list | tuple):
            return tuple(self.value(item, field, depth + 1) for item in value)
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()
        if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
            raise UserError(field or "config", value, "is too large a number")
        if isinstance(value, bool | int | float | str | None):
            return value
        if isinstance(value, PurePath):
            return str(value)
        kinds = "a setting is a number, text, true, false, none, a list, or a dict"
        raise UserError(field or "config", value, f"is of the type {type(value).__name__}; {kinds}")

    def key(self, key: Any, field: str) -> str:
        if isinstance(key, str):
            return key
        raise UserError(
            dotted(field, as_text(key)), None, f"a setting's name is text; this is of the type {type(key).__name__}"
        )
