"""Language modelling: on documents, each for itself, causal, several to a row (packing without crossing), or with a
prefix that is given, of which the rest is to be said (Raffel et al. 2020, 3.2.1); and on windows of one long array of
tokens (GPT, Radford et al. 2018).
"""

import functools
from typing import ClassVar

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import require
from vitzoo.data.text.packing import alone, pack
from vitzoo.data.text.rows import (
    EVALUATION,
    PREFIX,
    WINDOWS,
    DrawnPairs,
    Row,
    TargetSide,
    draws,
    given_before,
    rows_info,
)
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError


class Documents:
    """Each document is a segment: a document of n tokens takes n places and scores its tokens from the second on and
    its end token, n targets. A longer one than T is cut into pieces, which score each token once as well.

    With `packing` rows hold as many as fit, by a plan of (seed, T); else each piece has its own row.
    """

    MADE: ClassVar[str] = "documents"

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text, *, seed: int = 0):
        require(source, "text", what="language modelling")
        self.length, self.fill = text.length, tokenizer.fill_id
        self.array = token_array(source, tokenizer, prefix=text.prefix, ends=True)
        self.pieces = cut_documents(self.array.lengths - 1, self.length)
        if not len(self.pieces):
            raise UserError("data.name", source.info.name, "no document has two tokens, one to go by and one to say")
        lengths = self.pieces[:, 2:]
        self.plan = pack(lengths, [self.length], seed) if text.packing else alone(len(self.pieces))
        made = (self.MADE, self.length, text.packing, seed if text.packing else 0)
        notes = (*_notes(self.pieces, self.array.lengths), *notes_of(self.array))
        self.info = rows_info(source.info, len(self.plan), tokenizer, notes, *made)

    def __len__(self) -> int:
        return len(self.plan)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        return self._laid(index, TargetSide(self.length, self.fill)).row(index)

    def _laid(self, index: int, side: TargetSide) -> TargetSide:
        """An empty row with its pieces in it."""
        document, offset, lengths = self.pieces[self.plan.row(index)].T
        # all pieces are gathered at once: where each begins in the array, less where it begins in the row
        shift = self.array.starts[document] + offset - (np.cumsum(lengths) - lengths)
        places = np.repeat(shift, lengths) + np.arange(lengths.sum())
        side.add_all(self.array.tokens[places], self.array.tokens[places + 1], lengths)
        return side

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill).row(-1, 0.0)


def cut_documents(lengths: np.ndarray, limit: int) -> np.ndarray:
    """Pieces of at most `limit` places: int64 [pieces, 3]: document, offset, length. Of length 0: none."""
    lengths = np.maximum(lengths, 0)
    counts = -(-lengths // limit)
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    offset = number * limit
    return np.stack([document, offset, np.minimum(lengths[document] - offset, limit)], 1).astype(np.int64)


def _notes(pieces: np.ndarray, lengths: np.ndarray) -> tuple[str, ...]:
    cut = len(np.unique(pieces[pieces[:, 1] > 0, 0]))
    return (f"{cut:,} of {len(lengths):,} documents are longer than a row and cut into pieces",) if cut else ()


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


class PrefixRows(DrawnPairs):
    """Row i splits tokens i·L to i·L + L - 1 of all text joined, L = min(S, T) - 1, at a place drawn evenly from the
    L - 1 between two tokens; both sides get the end token, where there is one, and the target is scored.
    """

    TAG = PREFIX

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text):
        require(source, "text", what="prefix language modelling")
        if text.packing:
            raise UserError(
                "inputs.tokens.packing", True, "has no effect on an encoder-decoder's rows of prefix: they are full"
            )
        self.lengths = (text.source_length, text.length)
        self.fill, self.start = tokenizer.fill_id, tokenizer.decoder_start_id
        self.end = np.array([] if tokenizer.end_id is None else [tokenizer.end_id], np.int32)
        self.window = min(self.lengths) - 1
        if self.window < 2:
            raise UserError("inputs.tokens.length", min(self.lengths), "leaves no two tokens to split; at least 3")
        self.array = token_array(source, tokenizer, prefix=text.prefix, ends=False)
        if len(self.array) < 2:
            raise UserError("data.name", source.info.name, "holds no two tokens")
        self.count = -(-(len(self.array) - 1) // self.window)
        self.info = rows_info(source.info, self.count, tokenizer, notes_of(self.array), "prefix", self.lengths)

    def _row(self, index: int, random: np.random.Generator) -> Row:
        start = index * self.window
        ids = self.array.tokens[start : start + self.window].astype(np.int32)
        split = int(random.integers(1, len(ids)))
        encoder, decoder = self._sides()
        encoder.add(np.concatenate([ids[:split], self.end]))
        targets = np.concatenate([ids[split:], self.end])
        decoder.add(given_before(targets, self.start), targets)
        return decoder.row(index, 1.0, encoder.arrays())


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
