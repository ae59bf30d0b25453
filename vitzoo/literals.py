"""Numbers as a text writes them: Python itself reads `1_000` and digits of other scripts too, and 1e-400 as 0."""

import re

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
MOST_DIGITS = 4300  # that Python reads; more take a time that grows with their square


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
