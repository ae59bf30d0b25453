"""Causal language modelling over one long array of tokens, cut into windows (GPT, Radford et al. 2018)."""

import functools

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import require
from vitzoo.data.text.rows import WINDOWS, Row, TargetSide, draws, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError


class Windows:
    """Window i is given tokens i·T to i·T + T - 1 and has to say the next of each: (tokens - 1) // T windows.

    In training, with `random_offsets`, all windows of an epoch start a draw of 0 to T - 1 tokens later (the last
    one stays within the text): every token is a target about once an epoch, each time with another context. Windows
    run across documents, whose ends the end token marks. The tokens after the last whole window, fewer than T,
    aren't used without offsets. Evaluation uses all: see `ScoredWindows`.
    """

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text):
        require(source, "text", what="language modelling")
        self.length, self.random_offsets, self.fill = text.length, text.random_offsets, tokenizer.fill_id
        self.array = token_array(source, tokenizer, prefix=text.prefix)
        self.count = (len(self.array) - 1) // self.length
        if self.count < 1:
            problem = f"{source.info.name} {source.info.split} has only {len(self.array):,} tokens"
            raise UserError("inputs.tokens.length", self.length, problem)
        self.info = rows_info(source.info, self.count, tokenizer, notes_of(self.array), "windows", self.length)

    def __len__(self) -> int:
        return self.count

    def train_row(self, index: int, seed: int, position: int) -> Row:
        if not self.random_offsets:
            return self._row(index, index * self.length)
        shift = epoch_shift(seed, position // self.count, self.length)
        return self._row(index, min(index * self.length + shift, len(self.array) - 1 - self.length))

    def eval_row(self, index: int) -> Row:
        return self._row(index, index * self.length)

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill).row(-1, 0.0)

    def _row(self, index: int, start: int) -> Row:
        ids = self.array.tokens[start : start + self.length + 1].astype(np.int32)
        side = TargetSide(self.length, self.fill)
        side.add(ids[:-1], ids[1:])
        return side.row(index)


class ScoredWindows:
    """Windows for evaluation, in which every token but the first is scored exactly once.

    Window i is given the T tokens from i·stride on, fewer at the text's end. The first is scored throughout, each later
    one in its last `stride` places: the others only give context, at least T - stride tokens.

    Args:
        stride: from one window's start to the next one's, up to T; None is T, windows without overlap.
    """

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text, *, stride: int | None = None):
        require(source, "text", what="language modelling")
        self.length, self.fill = text.length, tokenizer.fill_id
        self.stride = self.length if stride is None else stride
        if self.stride > self.length:
            raise UserError(
                "stride", stride, f"is more than inputs.tokens.length = {self.length}: tokens would be left out"
            )
        self.array = token_array(source, tokenizer, prefix=text.prefix)
        if len(self.array) < 2:
            raise UserError(
                "data.name",
                source.info.name,
                f"{source.info.split} has fewer than two tokens",
            )
        targets = len(self.array) - 1
        self.count = 1 + -(-max(targets - self.length, 0) // self.stride)
        self.info = rows_info(
            source.info, self.count, tokenizer, notes_of(self.array), "scored windows", self.length, self.stride
        )

    def __len__(self) -> int:
        return self.count

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        start = index * self.stride
        ids = self.array.tokens[start : start + self.length + 1].astype(np.int32)
        scored = np.arange(len(ids) - 1) >= (self.length - self.stride if index else 0)
        side = TargetSide(self.length, self.fill)
        side.add(ids[:-1], ids[1:], scored)
        return side.row(index)

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill).row(-1, 0.0)


@functools.lru_cache(64)
def epoch_shift(seed: int, epoch: int, length: int) -> int:
    """By how many tokens the windows of an epoch start later: 0 to length - 1."""
    return int(draws(seed, WINDOWS, epoch).integers(length))
