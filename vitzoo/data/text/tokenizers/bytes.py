"""Text as its UTF-8 bytes (ByT5, Xue et al. 2021): nothing to train, nothing unknown."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from vitzoo.data.text.tokenizers.base import Ids, Specials, TextTokenizer, as_ids, as_json, sentinel_names
from vitzoo.data.text.tokenizers.base import split_at_specials as _split

FIRST = 3  # padding 0, end 1, unknown 2, then the 256 bytes
NAMES = {0: "<pad>", 1: "</s>", 2: "<unk>"}
ROLES = {"pad": "<pad>", "end": "</s>", "unknown": "<unk>"}
NEVER_IN_TEXT = 11
"""Byte values from 245 on, which stand nowhere in UTF-8."""
MASKING = {"mask": "<mask>", "classify": "<cls>", "separate": "<sep>"}


class ByteTokenizer(TextTokenizer):
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
        self.specials = Specials.of(names | sentinel_names(first_sentinel, sentinels), ROLES | extra, sentinels)

    @classmethod
    def of_byt5(cls) -> "ByteTokenizer":
        """The published ByT5s', with those sentinels that no UTF-8 holds as a byte."""
        return cls(NEVER_IN_TEXT, bytes_as_sentinels=True)

    def encode(self, text: str) -> Ids:
        if not self.special_in_text:
            return self._bytes(text)
        parts = [as_ids([part]) if isinstance(part, int) else self._bytes(part) for part in _split(text, self.specials)]
        return np.concatenate([as_ids([]), *parts])

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        special = dict(self.specials.names)
        names = {} if skip_specials else special
        content = b"".join(
            bytes([id - FIRST]) if FIRST <= id < FIRST + 256 and id not in special else names.get(id, "").encode()
            for id in map(int, ids)
        )
        return content.decode("utf-8", "replace")

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": as_json({"kind": self.kind, **self.settings})}

    def with_special_in_text(self) -> Self:
        return type(self)(**{**self.settings, "special_in_text": True})

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

    def _bytes(self, text: str) -> Ids:
        content = (text.lower() if self.lowercase else text).encode("utf-8", "surrogatepass")
        return np.frombuffer(content, np.uint8).astype(np.int32) + FIRST
