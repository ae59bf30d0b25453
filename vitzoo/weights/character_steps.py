"""A SentencePiece model's replacement of characters as steps of the `tokenizers` library that give the same text.

SentencePiece replaces at each place the longest text that its table has. The library's step for such a table looks at
whole characters with their accents instead, and takes of these the shortest beginning, so that what follows it is lost
or stays apart. Here marks are put between characters first: between those that the table joins, and around all others.
So the library's step sees each alone; then those that belong together are joined by Unicode's normal form C, which the
other marks keep from reaching further.
"""

import functools
import itertools
import unicodedata
from collections.abc import Collection, Iterable
from typing import Any

from tokenizers import Regex, normalizers

from vitzoo.data.text.tokenizers.definition import rules
from vitzoo.errors import UserError

JOINED, APART = "\ufdd0", "\ufdd1"
"""Between characters that become one, and others. Unicode keeps these two from ever being characters."""
OTHERS = r"(?=[^\x00-\x7F\x{FDD0}])(?<=[^\x{FDD0}])|(?<=\r)(?=\n)"
"""Between a character and the next, which may be one to the library. (At a text's beginning it can't take a mark.)"""
MOST_ALONE = 200  # steps that replace texts by what normal form C doesn't make of them


def character_steps(table: bytes) -> list[Any]:
    """Normalisers that replace as the table does.

    Args:
        table: `precompiled_charsmap`.

    Raises:
        ValueError: it is damaged.
        UserError: it joins many characters otherwise than normal form C does.
    """
    inside, alone = _plan(table)
    return [
        *(normalizers.Replace(Regex(texts), replacement) for texts, replacement in alone),
        *([normalizers.Replace(Regex(inside), JOINED)] if inside else []),
        normalizers.Replace(Regex(OTHERS), APART),
        normalizers.Precompiled(table),
        normalizers.Replace(JOINED, ""),
        normalizers.NFC(),
        normalizers.Replace(APART, ""),
    ]


@functools.lru_cache(4)
def _plan(table: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Where characters are joined, as a regular expression of no width, and what is replaced by steps of its own."""
    found = rules(table)
    single = {text: replacement for text, replacement in found.items() if len(text) == 1}
    before: dict[str, set[str]] = {}
    alone: dict[tuple[int, str], list[str]] = {}
    for text, replacement in found.items():
        if len(text) == 1:
            continue
        parts = "".join([single.get(character, character) for character in text])
        if unicodedata.normalize("NFC", parts) != replacement:
            alone.setdefault((len(text), replacement), []).append(text)
            continue
        for place in range(1, len(text)):
            before.setdefault(text[place], set()).add(text[:place])
    if len(alone) > MOST_ALONE:
        problem = f"joins characters to {len(alone):,} others in ways that transformers' form has no step for"
        raise UserError("tokenizer", "sentencepiece", problem)
    places = [f"(?=[{_class(after)}])(?<={_any(prefixes)})" for prefixes, after in _alike(before)]
    inside = f"(?=[{_class(before)}])(?:{'|'.join(places)})" if places else ""  # most characters are none of these
    longest_first = sorted(alone, key=lambda pair: -pair[0])
    return inside, tuple(("|".join(map(escaped, alone[pair])), pair[1]) for pair in longest_first)


def _alike(sets: dict[str, set[str]]) -> list[tuple[frozenset[str], list[str]]]:
    """Of sets by name, each once with all its names."""
    found: dict[frozenset[str], list[str]] = {}
    for name, one in sets.items():
        found.setdefault(frozenset(one), []).append(name)
    return list(found.items())


def _any(texts: Collection[str]) -> str:
    """A regular expression of any of some texts: of each length, sets of characters that may follow one another."""
    parts = [f"[{_class(text for text in texts if len(text) == 1)}]"] if any(len(text) == 1 for text in texts) else []
    longer: dict[str, set[str]] = {}
    for text in texts:
        if len(text) > 1:
            longer.setdefault(text[-1], set()).add(text[:-1])
    return "|".join([*parts, *(f"{one}[{_class(last)}]" for first, last in _alike(longer) for one in _split(first))])


def _split(texts: Collection[str]) -> list[str]:
    """As `_any`, in a list of alternatives: what a look behind must have at its top."""
    return _any(texts).split("|")


def escaped(text: str) -> str:
    """A text in a regular expression of the library."""
    return "".join(rf"\x{{{ord(character):X}}}" for character in text)


def _class(characters: Iterable[str]) -> str:
    """The inside of a regular expression's set of characters."""
    codes = sorted(map(ord, characters))
    runs = [list(run) for _, run in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    ends = [(run[0][1], run[-1][1]) for run in runs]
    return "".join(rf"\x{{{first:X}}}" + (rf"-\x{{{last:X}}}" if last > first else "") for first, last in ends)
