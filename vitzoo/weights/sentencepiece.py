"""How a SentencePiece model normalises text, and steps of the `tokenizers` library that do the same.

The library `sentencepiece` doesn't tell the first. The file is a protocol buffer of which a few fields are looked at.

SentencePiece replaces at each place the longest text that its table has. The other library's step for such a table
looks at whole characters with their accents instead, and takes of these the shortest beginning, so that what follows it
is lost or stays apart. Here marks are put between characters first: between those that the table joins, and around all
others. So the library's step sees each alone; then those that belong together are joined by Unicode's normal form C,
which the other marks keep from reaching further.
"""

import dataclasses
import functools
import itertools
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tokenizers import Regex, normalizers

from vitzoo.data.text.tokenizers.definition import rules
from vitzoo.errors import UserError

TRAINER, NORMALISER = 2, 3
"""Fields of the model."""
MODEL_TYPE, BYTE_FALLBACK = 3, 35
"""Fields of the trainer's settings."""
CHARACTERS, SPACE_FIRST, ONE_SPACE = 2, 3, 4
"""Fields of the normaliser's settings: a compiled table; the last two are true unless stated."""
MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


@dataclasses.dataclass(frozen=True)
class Normalisation:
    """How a model treats text before it is cut.

    Attributes:
        model_type: `unigram`, `bpe`, `word` or `char`.
        byte_fallback: unknown characters become their bytes.
        characters: the compiled table by which characters are replaced.
        space_first: a space is put before a text.
        one_space: several spaces become one, those at both ends none.
    """

    model_type: str
    byte_fallback: bool
    characters: bytes
    space_first: bool
    one_space: bool


def normalisation(model: bytes) -> Normalisation:
    """Of a SentencePiece model, which the library has read already."""
    parts = {number: value for number, value in _fields(model) if isinstance(value, bytes)}
    trainer, normaliser = dict(_fields(parts.get(TRAINER, b""))), dict(_fields(parts.get(NORMALISER, b"")))
    characters = normaliser.get(CHARACTERS, b"")
    return Normalisation(
        model_type=MODEL_TYPES.get(int(trainer.get(MODEL_TYPE, 1)), "another"),
        byte_fallback=bool(trainer.get(BYTE_FALLBACK, 0)),
        characters=characters if isinstance(characters, bytes) else b"",
        space_first=bool(normaliser.get(SPACE_FIRST, 1)),
        one_space=bool(normaliser.get(ONE_SPACE, 1)),
    )


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers of fields with their values: numbers as they are, everything with a length as bytes."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        kind = tag & 7
        if kind == 0:
            value: int | bytes
            value, place = _number(message, place)
        else:
            length, place = _number(message, place) if kind == 2 else ({1: 8, 5: 4}[kind], place)
            value, place = message[place : place + length], place + length
        yield tag >> 3, value


def _number(message: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place


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
