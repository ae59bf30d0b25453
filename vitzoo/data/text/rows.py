"""What a batch of text is made of, and what the makers of its rows share.

Every array of a row has a fixed shape. Keys, for T = `length` and S = `source_length`:

- `tokens` int32 [T] what the model (the decoder) is given, `targets` int32 [T] what it is to say at each place,
  `target_weights` float32 [T] how much each place counts (0: not scored)
- `tokens_segments` int32 [T] 0 where there is nothing, 1, 2, ... the texts that share the row; `tokens_positions` int32
  [T] start anew with each text
- a decoder that is a prefix LM: `tokens_prefix` bool [T], what each text begins with, which is read in both directions
- encoder-decoder: `source`, `source_segments`, `source_positions` int32 [S]; a target's segment is its source's
- masked training: `chosen` int32 [K] the scored places, filled up with place 0, which isn't one
- `tokens_types` int32 [T] 0 and 1 for the first and second part; `label` int32 [], or float32 [] for regression
- word labels: `words` int32 [T] the number, from 1, of the word that begins there, else 0
- `example_weight` float32 [] 0 for rows that only fill up a batch, `id` int64 [], -1 for those
"""

import abc
import dataclasses
from collections.abc import Hashable, Mapping
from typing import ClassVar

import numpy as np

from vitzoo.data.rows import Row
from vitzoo.data.sources.base import SourceInfo, fingerprint
from vitzoo.data.text.tokenizers.base import TextTokenizer

# each maker of rows has draws of its own
WINDOWS, SPANS, PREFIX, MASKS, SHOTS = 101, 102, 103, 104, 105
EVALUATION = 50  # added to these for the draws of an evaluation, which are the same in every run


def draws(seed: int, tag: int, position: int) -> np.random.Generator:
    """The random numbers of one row."""
    return np.random.default_rng((seed % 2**64, tag, position))


def rows_info(
    info: SourceInfo, count: int, tokenizer: TextTokenizer, notes: tuple[str, ...] = (), *made: Hashable
) -> SourceInfo:
    """The description of rows made from a source: how many, and a fingerprint of text, tokenizer and making."""
    mark = fingerprint(info.fingerprint, tokenizer.sha256, count, *made)
    return dataclasses.replace(info, n=count, fingerprint=mark, notes=(*info.notes, *notes))


class TargetSide:
    """A row under way: texts laid one after another into [length] places.

    Args:
        length: T.
        fill: the id where there is nothing; what is there is told by `tokens_segments` alone.
        prefix_lm: whether the row tells what each text begins with.
    """

    def __init__(self, length: int, fill: int, prefix_lm: bool = False):
        self.prefix = np.zeros(length, bool) if prefix_lm else None
        self.tokens = np.full(length, fill, np.int32)
        self.targets = np.full(length, fill, np.int32)
        self.weights = np.zeros(length, np.float32)
        self.segments = np.zeros(length, np.int32)
        self.positions = np.zeros(length, np.int32)
        self.used = self.texts = 0

    def add(
        self, tokens: np.ndarray, targets: np.ndarray, weights: np.ndarray | float = 1.0, *, prefix: int = 0
    ) -> None:
        """The next text; it has to fit. Its first `prefix` tokens are its prefix, if the row tells any."""
        place = slice(self.used, self.used + len(tokens))
        self.used, self.texts = place.stop, self.texts + 1
        self.tokens[place], self.targets[place], self.weights[place] = tokens, targets, weights
        self.segments[place], self.positions[place] = self.texts, np.arange(len(tokens))
        if self.prefix is not None:
            self.prefix[place] = np.arange(len(tokens)) < prefix

    def add_all(self, tokens: np.ndarray, targets: np.ndarray, lengths: np.ndarray) -> None:
        """Several texts, fully scored, into an empty row: their arrays joined, and how long each is."""
        place = slice(0, len(tokens))
        self.used, self.texts = len(tokens), len(lengths)
        self.tokens[place], self.targets[place], self.weights[place] = tokens, targets, 1.0
        self.segments[place] = np.repeat(np.arange(1, len(lengths) + 1), lengths)
        self.positions[place] = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def row(self, id: int, weight: float = 1.0, more: Mapping[str, np.ndarray | np.generic] | None = None) -> Row:
        return {
            "tokens": self.tokens,
            "targets": self.targets,
            "target_weights": self.weights,
            "tokens_segments": self.segments,
            "tokens_positions": self.positions,
            **({} if self.prefix is None else {"tokens_prefix": self.prefix}),
            **(more or {}),
            "example_weight": np.array(weight, np.float32),
            "id": np.array(id, np.int64),
        }


class SourceSide:
    """The encoder's part of a row under way, [length] places."""

    def __init__(self, length: int, fill: int):
        self.tokens = np.full(length, fill, np.int32)
        self.segments = np.zeros(length, np.int32)
        self.positions = np.zeros(length, np.int32)
        self.used = self.texts = 0

    def add(self, tokens: np.ndarray) -> None:
        place = slice(self.used, self.used + len(tokens))
        self.used, self.texts = place.stop, self.texts + 1
        self.tokens[place], self.segments[place], self.positions[place] = tokens, self.texts, np.arange(len(tokens))

    def arrays(self) -> Row:
        return {
            "source": self.tokens,
            "source_segments": self.segments,
            "source_positions": self.positions,
        }


def given_before(targets: np.ndarray, start: int) -> np.ndarray:
    """What a decoder is given at each place: `start`, then the targets but for the last."""
    return np.concatenate([np.array([start], np.int32), targets[:-1]])


class DrawnPairs(abc.ABC):
    """What rows of a source and a target drawn from a text share. A kind of them makes `_row` from the row's draws."""

    TAG: ClassVar[int]
    count: int
    lengths: tuple[int, int]  # of source and target
    fill: int

    def __len__(self) -> int:
        return self.count

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self._row(index, draws(seed, self.TAG, position))

    def eval_row(self, index: int) -> Row:
        return self._row(index, draws(0, self.TAG + EVALUATION, index))

    def padding(self) -> Row:
        encoder, decoder = self._sides()
        return decoder.row(-1, 0.0, encoder.arrays())

    def _sides(self) -> tuple[SourceSide, TargetSide]:
        return SourceSide(self.lengths[0], self.fill), TargetSide(self.lengths[1], self.fill)

    @abc.abstractmethod
    def _row(self, index: int, random: np.random.Generator) -> Row: ...
