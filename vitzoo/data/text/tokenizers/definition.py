"""What the content of a tokenizer.json must hold before the `tokenizers` library is given it.

Two things of it are looked into: the compiled table by which a SentencePiece model replaces characters, a trie of texts
in UTF-8 as a double array (Aoe 1989) and what each becomes, which in spiece.model stands as `precompiled_charsmap`; and
how much longer its steps can make a text: nine that put ten letters in the place of one make a billion, and no machine
ends with that.
"""

import base64
import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
from tokenizers import pre_tokenizers

from vitzoo.strict_json import JSON


class AddedToken(TypedDict):
    """A token beside the vocabulary, and how it is found in a text."""

    id: int
    content: str
    special: NotRequired[bool]
    single_word: NotRequired[bool]
    lstrip: NotRequired[bool]
    rstrip: NotRequired[bool]
    normalized: NotRequired[bool]


class ModelDefinition(TypedDict):
    """What makes pieces of a text."""

    type: NotRequired[str]
    vocab: dict[str, int] | list[tuple[str, float]]
    merges: NotRequired[list[str | list[str]]]
    unk_token: NotRequired[str | None]
    unk_id: NotRequired[int | None]
    byte_fallback: NotRequired[bool]
    continuing_subword_prefix: NotRequired[str | None]


class Definition(TypedDict):
    """The content of a tokenizer.json, as far as it is read here."""

    model: ModelDefinition
    added_tokens: NotRequired[list[AddedToken]]
    normalizer: NotRequired[JSON]
    pre_tokenizer: NotRequired[JSON]
    decoder: NotRequired[JSON]
    post_processor: NotRequired[JSON]
    truncation: NotRequired[JSON]
    padding: NotRequired[JSON]


LENGTH = 4  # bytes of the number before the trie, and of each of its units
ROOT = -1
BLOCK = 256  # a unit's children lie within one block of this many
LEAF, WIDE = 1 << 8, 1 << 9
LABEL, VALUE = 0x800000FF, 0x7FFFFFFF
"""Bits of a unit: has a value, its offset counts blocks; which byte it is for, the value of a leaf."""
DEEPEST = 64  # bytes of a text that is replaced
BYTES = [bytes([label]) for label in range(1, BLOCK)]
MOST = 2**20  # texts; the usual table has about 230,000, most of them syllables of Hangul


def check_map(table: bytes) -> None:
    """Checks a table as far as any text can lead into it.

    Raises:
        ValueError: it is no such table, or damaged.
    """
    _walked(table)


def rules(table: bytes) -> dict[str, str]:
    """The texts that a table replaces, and what by; of several that fit, the longest is meant.

    Raises:
        ValueError: it is no such table, or damaged.
    """
    edges, units, replacements = _walked(table)
    values, made = (units & VALUE).tolist(), {}
    whole = replacements.decode("latin-1")  # a character for a byte
    level = [(b"", ROOT)]
    for _ in range(DEEPEST):
        below = [(text + label, edge) for text, place in level for label, edge in edges.get(place, ())]
        for text, (place, ends) in below:
            if ends:
                start = values[place]
                made[text.decode()] = whole[start : whole.index("\0", start)].encode("latin-1").decode()
        if not below:
            return made
        if len(made) > MOST or len(below) > MOST:
            break
        level = [(text, place) for text, (place, _) in below]
    raise ValueError("its precompiled_charsmap has no end")


Edges = dict[int, list[tuple[bytes, tuple[int, bool]]]]
"""From where a unit's children begin: each byte that can follow, where its own children begin, and whether a text ends
there, whose value stands at that place."""


def _walked(table: bytes) -> tuple[Edges, np.ndarray, bytes]:
    """What follows what in a trie; its units; and the replacements, each ended by a zero. Parts of a trie may be
    shared, and are looked at once.
    """
    size = int.from_bytes(table[:LENGTH], "little")
    trie, replacements = table[LENGTH : LENGTH + size], table[LENGTH + size :]
    if len(table) < LENGTH or len(trie) != size or size % (LENGTH * BLOCK) or not size:
        raise ValueError("its precompiled_charsmap is no table of characters")
    units = np.frombuffer(trie, "<u4").astype(np.int64)
    labels, seen = np.arange(1, BLOCK), np.zeros(len(units), bool)
    level, edges = _children(units, np.zeros(1, np.int64)), Edges()
    edges[ROOT] = edges.setdefault(int(level[0]), [])
    while len(level := np.unique(level[~seen[level]])):
        seen[level] = True
        children = level[:, None] ^ labels
        parents, which = np.nonzero((units[children] & LABEL) == labels)
        places = children[parents, which]
        begins, ends = _children(units, places), (units[places] & LEAF) != 0
        _check_values(units[begins[ends]] & VALUE, replacements)
        for parent, label, begin, end in zip(
            level[parents].tolist(), which.tolist(), begins.tolist(), ends.tolist(), strict=True
        ):
            edges.setdefault(parent, []).append((BYTES[label], (begin, end)))
        level = begins
    return edges, units, replacements


def _children(units: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Where the children of units begin, whose block must lie within the trie."""
    offsets = (units[places] >> 10) << np.where(units[places] & WIDE, 8, 0)
    begins = places ^ offsets
    if len(begins) and (begins | (BLOCK - 1)).max() >= len(units):
        raise ValueError("its precompiled_charsmap leads beyond its end")
    return begins


def _check_values(starts: np.ndarray, replacements: bytes) -> None:
    """Every replacement must begin at a character (within another, where it is its end) and be ended."""
    held = np.frombuffer(replacements, np.uint8)
    ends = starts >= replacements.rfind(b"\0") + 1
    if ends.any() or ((held[starts] & 0xC0) == 0x80).any():
        raise ValueError("its precompiled_charsmap replaces a text by what isn't there")
    try:
        replacements.decode()
    except UnicodeDecodeError:
        raise ValueError("its precompiled_charsmap replaces a text by what isn't UTF-8") from None


KNOWS_ALL_BUT = ("WordPiece", "WordLevel")
"""Models that put a token of their vocabulary in the place of what they don't know."""


def check_definition(definition: dict[str, Any]) -> Definition:
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
    return cast(Definition, definition)


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


def check_ids(vocabulary: Mapping[str, JSON]) -> None:
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


def check_added(ids: Mapping[str, int], stated: Mapping[str, int]) -> None:
    """Checks that added tokens have the ids that are stated: the library goes by the vocabulary, and numbers those that
    aren't in it one after another.

    Args:
        ids: of all tokens, as the library has them.
        stated: ids by name; names that the library has left out don't matter.

    Raises:
        ValueError: one has another id.
    """
    for name, id in stated.items():
        if name in ids and ids[name] != id:
            held = next((other for other, own in ids.items() if own == id), None)
            of = "" if held is None else f", which is that of {held[:40]!r}"
            raise ValueError(f"its added token {name[:40]!r} has the id {id}{of}; {ids[name]} is right")


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


LARGEST = 5_000
"""Characters that one may become. Of published tokenizers XLNet's and ALBERT's come nearest, with 648 by this count."""
STEPS = ("normalizers", "pretokenizers", "decoders", "processors")
OF_ONE = {
    "NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Lowercase": 2, "ByteLevel": 4, "BertNormalizer": 12,
}  # fmt: skip
"""Characters that one becomes at most, by the Unicode standard; ByteLevel shows up to four bytes as characters."""


def check_growth(definition: Definition) -> None:
    """Checks that no text becomes too much longer as it is encoded or decoded.

    Raises:
        ValueError: one may.
    """
    steps = {
        "normalizer and pre_tokenizer": (definition.get("normalizer"), definition.get("pre_tokenizer")),
        "decoder": (definition.get("decoder"),),
        "post_processor": (definition.get("post_processor"),),
    }
    for said, parts in steps.items():
        if math.prod([_growth(part) for part in parts]) > LARGEST:
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
