"""Text as its UTF-8 bytes (ByT5, Xue et al. 2021): nothing to train, nothing unknown."""

from collections.abc import Sequence

import numpy as np

from vitzoo.data.text.tokenizers.base import Ids, Specials, TextTokenizer, as_ids, as_json, sentinel_names
from vitzoo.data.text.tokenizers.base import split_at_specials as _split

FIRST = 3  # padding 0, end 1, unknown 2, then the 256 bytes
NAMES = {0: "<pad>", 1: "</s>", 2: "<unk>"}
ROLES = {"pad": "<pad>", "end": "</s>", "unknown": "<unk>"}
MASKING = {"mask": "<mask>", "classify": "<cls>", "separate": "<sep>"}


class ByteTokenizer(TextTokenizer):
    """ids = byte + 3, as in ByT5; tokens for masked training and sentinels follow the bytes.

    Published ByT5 checkpoints were trained with the last byte values (258, 257, ...) as sentinels; here sentinels are
    tokens of their own.
    """

    kind = "bytes"

    def __init__(
        self, sentinels: int = 0, *, masking: bool = False, lowercase: bool = False, special_in_text: bool = False
    ):
        self.settings = dict(
            sentinels=sentinels, masking=masking, lowercase=lowercase, special_in_text=special_in_text
        )  # fmt: skip
        self.lowercase, self.special_in_text = lowercase, special_in_text
        extra = MASKING if masking else {}
        names = NAMES | dict(enumerate(extra.values(), FIRST + 256))
        first_sentinel = FIRST + 256 + len(extra)
        self.vocabulary_size = first_sentinel + sentinels
        self.specials = Specials.of(names | sentinel_names(first_sentinel, sentinels), ROLES | extra, sentinels)

    def encode(self, text: str) -> Ids:
        if not self.special_in_text:
            return self._bytes(text)
        parts = [as_ids([part]) if isinstance(part, int) else self._bytes(part) for part in _split(text, self.specials)]
        return np.concatenate([as_ids([]), *parts])

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        names = {} if skip_specials else dict(self.specials.names)
        content = b"".join(
            bytes([id - FIRST]) if FIRST <= id < FIRST + 256 else names.get(int(id), "").encode()
            for id in map(int, ids)
        )
        return content.decode("utf-8", "replace")

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": as_json({"kind": self.kind, **self.settings})}

    @property
    def byte_lengths(self) -> np.ndarray:
        lengths = np.zeros(self.vocabulary_size, np.int32)
        lengths[FIRST : FIRST + 256] = 1
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
