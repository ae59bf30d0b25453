"""Text as its UTF-8 bytes (ByT5, Xue et al. 2021), or as its characters in sorted order (nanoGPT, minGPT)."""

import abc
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from vitzoo.data.text.tokenizers.base import Ids, Specials, TextTokenizer, as_ids, as_json, sentinel_names
from vitzoo.data.text.tokenizers.base import split_at_specials as _split

FIRST = 3  # padding 0, end 1, unknown 2, then the 256 bytes
NAMES = {0: "<pad>", 1: "</s>", 2: "<unk>"}
BYTE_ROLES = {"pad": "<pad>", "end": "</s>", "unknown": "<unk>"}
NEVER_IN_TEXT = 11
"""Byte values from 245 on, which stand nowhere in UTF-8."""
MASKING = {"mask": "<mask>", "classify": "<cls>", "separate": "<sep>"}


class PlainTokenizer(TextTokenizer):
    """A tokenizer that its settings make whole, and whose text is split at the names of special tokens alone."""

    settings: dict[str, Any]
    special_in_text: bool

    @abc.abstractmethod
    def _plain(self, text: str) -> Ids:
        """The ids of text in which nothing means a special token."""

    def encode(self, text: str) -> Ids:
        if not self.special_in_text:
            return self._plain(text)
        parts = [as_ids([part]) if isinstance(part, int) else self._plain(part) for part in _split(text, self.specials)]
        return np.concatenate([as_ids([]), *parts])

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": as_json({"kind": self.kind, **self.settings})}

    def with_special_in_text(self) -> Self:
        return type(self)(**{**self.settings, "special_in_text": True})


class ByteTokenizer(PlainTokenizer):
    """ids = byte + 3, as in ByT5; tokens for masked training and sentinels follow the bytes.

    Args:
        sentinels: how many.
        masking: <mask>, <cls> and <sep> are added.
        lowercase: text is lowered first.
        special_in_text: the names of special tokens in text mean them.
        bytes_as_sentinels: the sentinels are the last byte values (`<extra_id_0>` = 258, then 257, ...) and no tokens
            of their own, as the published ByT5s were trained; `of_byt5` makes theirs.
    """

    kind = "bytes"

    def __init__(
        self,
        sentinels: int = 0,
        *,
        masking: bool = False,
        lowercase: bool = False,
        special_in_text: bool = False,
        bytes_as_sentinels: bool = False,
    ):
        self.settings: dict[str, Any] = dict(
            sentinels=sentinels, masking=masking, lowercase=lowercase, special_in_text=special_in_text
        )  # fmt: skip
        self.settings |= {"bytes_as_sentinels": True} if bytes_as_sentinels else {}
        self.lowercase, self.special_in_text, self.is_byt5 = lowercase, special_in_text, bytes_as_sentinels
        extra = MASKING if masking else {}
        names = NAMES | dict(enumerate(extra.values(), FIRST + 256))
        end = FIRST + 256 + len(extra)
        first_sentinel = FIRST + 256 - sentinels if bytes_as_sentinels else end
        self.vocabulary_size = end if bytes_as_sentinels else end + sentinels
        self.specials = Specials.of(names | sentinel_names(first_sentinel, sentinels), BYTE_ROLES | extra, sentinels)

    @classmethod
    def of_byt5(cls) -> "ByteTokenizer":
        """The published ByT5s', with those sentinels that no UTF-8 holds as a byte."""
        return cls(NEVER_IN_TEXT, bytes_as_sentinels=True)

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        special = dict(self.specials.names)
        names = {} if skip_specials else special
        content = b"".join(
            bytes([id - FIRST]) if FIRST <= id < FIRST + 256 and id not in special else names.get(id, "").encode()
            for id in map(int, ids)
        )
        return content.decode("utf-8", "replace")

    @property
    def byte_lengths(self) -> np.ndarray:
        lengths = np.zeros(self.vocabulary_size, np.int32)
        lengths[FIRST : FIRST + 256] = 1
        lengths[list(self.specials.sentinels)] = 0
        return lengths

    @property
    def word_edges(self) -> tuple[np.ndarray, np.ndarray]:
        # letters, digits, and the bytes of characters beyond ASCII
        values = np.arange(256)
        inside = np.zeros(self.vocabulary_size, bool)
        inside[FIRST : FIRST + 256] = [value >= 128 or chr(value).isalnum() for value in values.tolist()]
        return inside, inside

    def _plain(self, text: str) -> Ids:
        content = (text.lower() if self.lowercase else text).encode("utf-8", "surrogatepass")
        return np.frombuffer(content, np.uint8).astype(np.int32) + FIRST


CHARACTER_ROLES = {"unknown": "<unk>", "end": "</s>", "pad": "<pad>"}


class CharacterTokenizer(PlainTokenizer):
    """The characters have the ids 0, 1, ... (nanoGPT's); <unk>, </s>, <pad>, tokens for masked training and sentinels
    follow.

    Args:
        characters: each known character once, in the order of ids.
    """

    kind = "characters"

    def __init__(
        self,
        characters: str,
        sentinels: int = 0,
        *,
        masking: bool = False,
        lowercase: bool = False,
        special_in_text: bool = False,
    ):
        self.settings: dict[str, Any] = dict(
            characters=characters, sentinels=sentinels, masking=masking, lowercase=lowercase,
            special_in_text=special_in_text,
        )  # fmt: skip
        self.characters, self.lowercase, self.special_in_text = characters, lowercase, special_in_text
        roles = CHARACTER_ROLES | (MASKING if masking else {})
        names = dict(enumerate(roles.values(), len(characters)))
        first_sentinel = len(characters) + len(roles)
        self.vocabulary_size = first_sentinel + sentinels
        self.specials = Specials.of(names | sentinel_names(first_sentinel, sentinels), roles, sentinels)
        self._code_points = np.array([ord(character) for character in characters], np.uint32)

    @classmethod
    def trained(cls, texts: Iterable[str], *, lowercase: bool = False, **options) -> "CharacterTokenizer":
        """With the characters of these texts."""
        found: set[str] = set()
        for text in texts:
            found |= set(text.lower() if lowercase else text)
        return cls("".join(sorted(found)), lowercase=lowercase, **options)

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        names = {} if skip_specials else dict(self.specials.names)
        known = len(self.characters)
        return "".join(self.characters[id] if 0 <= id < known else names.get(id, "") for id in map(int, ids))

    @property
    def byte_lengths(self) -> np.ndarray:
        lengths = np.zeros(self.vocabulary_size, np.int32)
        lengths[: len(self.characters)] = [len(c.encode("utf-8", "surrogatepass")) for c in self.characters]
        lengths[self.specials.unknown] = 1
        return lengths

    def first_bytes(self, text: str) -> int:
        return len(text[:1].encode("utf-8", "surrogatepass"))

    @property
    def word_edges(self) -> tuple[np.ndarray, np.ndarray]:
        inside = np.zeros(self.vocabulary_size, bool)
        inside[: len(self.characters)] = [character.isalnum() for character in self.characters]
        return inside, inside

    def _plain(self, text: str) -> Ids:
        text = text.lower() if self.lowercase else text
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        if not len(self._code_points):
            return np.full(len(codes), self.specials.unknown, np.int32)
        # the characters are sorted, so that their code points are
        places = np.searchsorted(self._code_points, codes).clip(max=len(self._code_points) - 1)
        return np.where(self._code_points[places] == codes, places, len(self.characters)).astype(np.int32)
