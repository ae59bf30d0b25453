"""Where a text, or a pair of texts, stands among an encoder's marks: in training, evaluation and use alike."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from vitzoo.data.text.tokenizers.base import Ids, TextTokenizer
from vitzoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Layout:
    """[CLS] text [SEP], or [CLS] first [SEP] second [SEP]. A tokenizer without these marks gives the text and its end
    token instead, which also stands between the parts.

    What is too long is cut at its end; of a pair, tokens are taken from the end of whichever part is longer, the second
    where equal.

    Args:
        tokenizer: that says what the marks are.
        length: most tokens, marks included.
    """

    tokenizer: TextTokenizer
    length: int

    def check(self, parts: int) -> None:
        """Refuses a length that has no room for a token of each part."""
        if self.room(parts) < parts:
            raise UserError("inputs.tokens.length", self.length, "leaves no room beside [CLS] and [SEP]")

    @property
    def opening(self) -> Ids:
        """What stands before the text, int32 [0 or 1]."""
        return _mark(self.tokenizer.classify_id)

    @property
    def closing(self) -> Ids:
        """What stands after each part, int32 [0 or 1]."""
        tokenizer = self.tokenizer
        return _mark(tokenizer.end_id if tokenizer.separate_id is None else tokenizer.separate_id)

    def room(self, parts: int) -> int:
        """Tokens that so many parts have together."""
        return self.length - len(self.opening) - parts * len(self.closing)

    def __call__(self, parts: Sequence[Ids]) -> tuple[Ids, np.ndarray]:
        """Ids with their marks, int32 [n], and the part that each belongs to, int32 [n].

        Args:
            parts: the ids of the text, or of the first and the second.
        """
        kept = longest_first([len(part) for part in parts], self.room(len(parts)))
        pieces = [np.concatenate([part[:k], self.closing]) for part, k in zip(parts, kept, strict=True)]
        pieces[0] = np.concatenate([self.opening, pieces[0]])
        types = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(piece) for piece in pieces])
        return np.concatenate(pieces).astype(np.int32), types


def longest_first(lengths: Sequence[int], room: int) -> list[int]:
    """How many tokens of a text, or of each part of a pair, are kept."""
    if sum(lengths) <= room or len(lengths) == 1:
        return [min(length, room) for length in lengths]
    first, second = lengths
    # the shorter one is only cut below half of the room
    if first <= second:
        kept = min(first, room - room // 2)
        return [kept, room - kept]
    kept = min(second, room // 2)
    return [room - kept, kept]


def _mark(id: int | None) -> Ids:
    return np.array([] if id is None else [id], np.int32)
