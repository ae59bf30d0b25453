"""What the `sentencepiece` library doesn't tell of a model file: how it normalises text. The file is a protocol
buffer of which a few fields are looked at."""

import dataclasses
from collections.abc import Iterator

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
