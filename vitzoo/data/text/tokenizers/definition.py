"""What the content of a tokenizer.json must hold before the `tokenizers` library is given it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from tokenizers import pre_tokenizers

from vitzoo.data.text.tokenizers.character_map import check_map

KNOWS_ALL_BUT = ("WordPiece", "WordLevel")
"""Models that put a token of their vocabulary in the place of what they don't know."""


def check_definition(definition: dict[str, Any]) -> None:
    """Checks what the library would only miss when it meets a text.

    Raises:
        ValueError: there is no model, no vocabulary, no token for what is unknown, or not each byte.
    """
    model = definition.get("model")
    if not isinstance(model, dict):
        raise ValueError("it holds no tokenizer: `model` is missing")
    vocabulary = model.get("vocab")
    if not vocabulary:
        raise ValueError("its vocabulary is empty")
    if isinstance(vocabulary, dict):
        check_ids(vocabulary)
    for table in _character_maps(definition.get("normalizer")):
        check_map(table)
    unknown = model.get("unk_token")
    if model.get("type") in KNOWS_ALL_BUT and unknown not in vocabulary:
        raise ValueError(f"its vocabulary lacks {unknown}, which stands for what is unknown")
    if model.get("type") == "Unigram" and model.get("unk_id") is None:
        raise ValueError("it has no token for what is unknown")
    if model.get("type") == "BPE" and unknown is None:
        _check_bytes(definition, set(vocabulary))


def _character_maps(normaliser: Any) -> Iterator[bytes]:
    """The compiled tables of characters among a normaliser's steps."""
    if not isinstance(normaliser, dict):
        return
    for step in normaliser.get("normalizers") or ():
        yield from _character_maps(step)
    if normaliser.get("type") == "Precompiled":
        yield _character_map(normaliser.get("precompiled_charsmap"))


def _character_map(stated: Any) -> bytes:
    if not isinstance(stated, str):
        raise ValueError(f"its precompiled_charsmap is {stated!r:.40}; text in base64 is right")
    return base64.b64decode(stated, validate=True)


def check_ids(vocabulary: dict[str, Any]) -> None:
    """Checks that every piece has an id of its own.

    Raises:
        ValueError: one has none, or another's.
    """
    pieces: dict[int, str] = {}
    for piece, id in vocabulary.items():
        if type(id) is not int or not 0 <= id < 2**31:
            raise ValueError(f"its piece {piece[:40]!r} has {id!r:.40} for an id")
        if id in pieces:
            raise ValueError(f"its pieces {pieces[id][:40]!r} and {piece[:40]!r} have one id, {id}")
        pieces[id] = piece


def _check_bytes(definition: dict[str, Any], vocabulary: set[str]) -> None:
    """Refuses a vocabulary without a token for what is unknown, where some text is: the library leaves it out."""
    if "ByteLevel" in json.dumps(definition.get("pre_tokenizer")):
        needed = set(pre_tokenizers.ByteLevel.alphabet())
    elif definition["model"].get("byte_fallback"):
        needed = {f"<0x{byte:02X}>" for byte in range(256)}
    else:
        raise ValueError("it has no token for what is unknown, and such text would be lost")
    if lacking := needed - vocabulary:
        raise ValueError(f"its vocabulary lacks {len(lacking)} of the 256 bytes, and their text would be lost")
