"""Prefix language modelling for decoders (Raffel et al. 2020, 3.2.1): of each document the beginning is given, and its
rest is to be said.
"""

from typing import ClassVar

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.documents import Documents
from vitzoo.data.text.rows import EVALUATION, PREFIX, Row, TargetSide, draws
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import TextTokenizer


class PrefixDocuments(Documents):
    """The pieces of `Documents`, each split anew in each epoch: of n + 1 tokens the first 1 to n are the prefix, each
    number as likely, and those behind it are scored. A piece's split is a function of (seed, epoch, piece), so that it
    is the same packed and alone; that of an evaluation is the same in every run.

    Args:
        prefix_lm: whether rows tell the prefix: to a model that reads it in both directions. Without, the same tokens
            are scored.
    """

    MADE: ClassVar[str] = "prefix"

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text, *, seed: int = 0, prefix_lm: bool = True):
        super().__init__(source, tokenizer, text, seed=seed)
        self.prefix_lm = prefix_lm

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self._row(index, seed, PREFIX, position // len(self))

    def eval_row(self, index: int) -> Row:
        return self._row(index, 0, PREFIX + EVALUATION, 0)

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill, self.prefix_lm).row(-1, 0.0)

    def _row(self, index: int, seed: int, tag: int, epoch: int) -> Row:
        side = self._laid(index, TargetSide(self.length, self.fill, self.prefix_lm))
        pieces = self.plan.row(index)
        lengths, first = self.pieces[pieces, 2], epoch * len(self.pieces)
        splits = [
            int(draws(seed, tag, first + piece).integers(1, length + 1))
            for piece, length in zip(pieces.tolist(), lengths.tolist(), strict=True)
        ]
        behind = side.positions[: side.used] - np.repeat(splits, lengths)  # -1: the prefix's last token
        side.weights[: side.used] = behind >= -1
        if side.prefix is not None:
            side.prefix[: side.used] = behind < 0
        return side.row(index)
