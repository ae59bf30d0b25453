"""How much longer the steps of a tokenizer.json can make a text: nine that put ten letters in the place of one make a
billion, and no machine ends with that."""

import base64
import contextlib
import math
import re
from collections.abc import Callable
from typing import Any

LARGEST = 5_000
"""Characters that one may become. Of published tokenizers XLNet's and ALBERT's come nearest, with 648 by this count."""
STEPS = ("normalizers", "pretokenizers", "decoders", "processors")
OF_ONE = {
    "NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Lowercase": 2, "ByteLevel": 4, "BertNormalizer": 12,
}  # fmt: skip
"""Characters that one becomes at most, by the Unicode standard; ByteLevel shows up to four bytes as characters."""


def check_growth(definition: dict[str, Any]) -> None:
    """Checks that no text becomes too much longer as it is encoded or decoded.

    Raises:
        ValueError: one may.
    """
    for parts in (("normalizer", "pre_tokenizer"), ("decoder",), ("post_processor",)):
        factor = math.prod(_growth(definition.get(part)) for part in parts)
        if factor > LARGEST:
            said = " and ".join(parts)
            raise ValueError(f"its {said} may make over {LARGEST:,} characters or tokens of one; fewer are right")


def _growth(step: Any) -> float:
    """By what a step multiplies the length of a text at most; what the library won't read counts as nothing."""
    if not isinstance(step, dict):
        return 1
    inner = [one for name in STEPS if isinstance(step.get(name), list) for one in step[name]]
    kind = step.get("type")
    own = _OF_STEP[str(kind)](step) if str(kind) in _OF_STEP else OF_ONE.get(str(kind), 1)
    for one in inner:
        own = min(own * _growth(one), LARGEST + 1)  # as a product of thousands would be no number
    return own


def _of_replace(step: dict[str, Any]) -> float:
    content, pattern = _text(step.get("content")), step.get("pattern")
    stated = pattern if isinstance(pattern, dict) else {"String": pattern}
    fixed = _text(stated.get("String"))
    if fixed:
        return max(1, len(content) / len(fixed))
    return max(1, len(content) + _matches_nothing(_text(stated.get("Regex"))))


def _matches_nothing(pattern: str) -> bool:
    """Whether it may be found between any two characters."""
    with contextlib.suppress(re.error, RecursionError, OverflowError):
        return re.match(pattern, "") is not None or any(mark in pattern for mark in ("\\b", "\\B", "(?=", "(?!", "(?<"))
    return True  # written as the library writes it


def _of_prepend(step: dict[str, Any]) -> float:
    return 1 + len(_text(step.get("prepend")))


def _of_map(step: dict[str, Any]) -> float:
    """Of a compiled table of characters: the longest of what it puts in the place of some."""
    with contextlib.suppress(ValueError):
        table = base64.b64decode(_text(step.get("precompiled_charsmap")), validate=True)
        begin = 4 + int.from_bytes(table[:4], "little")
        return max(1, *(len(one.decode(errors="replace")) for one in table[begin:].split(b"\0")))
    return 1


def _of_template(step: dict[str, Any]) -> float:
    """Tokens that a text of one becomes."""
    special = step.get("special_tokens")
    ids = {name: _ids(one) for name, one in special.items()} if isinstance(special, dict) else {}
    longest = 1
    for name in ("single", "pair"):
        pieces = step.get(name)
        named = [one.get("SpecialToken") for one in pieces if isinstance(one, dict)] if isinstance(pieces, list) else []
        longest = max(longest, sum(ids.get(_text(one.get("id")), 1) if isinstance(one, dict) else 1 for one in named))
    return longest


def _ids(token: Any) -> int:
    ids = token.get("ids") if isinstance(token, dict) else None
    return len(ids) if isinstance(ids, list) else 1


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_OF_STEP: dict[str, Callable[[dict[str, Any]], float]] = {
    "Replace": _of_replace, "Prepend": _of_prepend, "Precompiled": _of_map, "TemplateProcessing": _of_template,
}  # fmt: skip
