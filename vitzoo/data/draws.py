"""Random numbers and the order of examples as functions of (seed, global position): no state, the same on any worker,
process or restart.
"""

from typing import Protocol

import numpy as np

from vitzoo.data.rows import Rows
from vitzoo.errors import UserError

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_GOLDEN = 0x9E3779B97F4A7C15


def generator(seed: int, position: int) -> np.random.Generator:
    """A generator of its own for one example of the stream."""
    key = np.array([seed % 2**64, position], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def uniform(seed: int, positions: np.ndarray, stream: int) -> np.ndarray:
    """A number in [0, 1) for each position, float64 [positions]: SplitMix64 of (seed, stream, position), vectorised.

    `stream` tells apart the draws that one example needs.
    """
    start = _scramble(np.array([(seed + _GOLDEN * (stream + 1)) % 2**64], np.uint64))
    bits = _scramble(start + np.uint64(_GOLDEN) * np.asarray(positions, np.uint64))
    return (bits >> np.uint64(11)) * 2.0**-53


def _scramble(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * _MIX[0]
    state = (state ^ (state >> np.uint64(27))) * _MIX[1]
    return state ^ (state >> np.uint64(31))


KEPT_EPOCHS = 4  # more than prefetching spans, but for sets smaller than a batch
ROUNDS = 0  # the group of draws that permutes classes; those of the classes follow


class Order(Protocol):
    """Global positions, int64 [n], to example indices [n]."""

    def __call__(self, positions: np.ndarray) -> np.ndarray: ...


def example_order(rows: Rows, seed: int, balance: str, repeats: int = 1) -> Order:
    """The order of a stream: shuffled anew in each epoch, or balanced (`data.balance=classes`).

    Args:
        rows: of the training split.
        seed: of the order.
        balance: as in `data.balance`.
        repeats: how often each example stands there in a row.

    Raises:
        UserError: balance is asked for where images have several labels, or rows no class.
    """
    once = _order(rows, seed, balance)
    return once if repeats == 1 else Repeated(once, repeats)


def _order(rows: Rows, seed: int, balance: str) -> Order:
    if balance != "classes":
        return Shuffled(seed, ROUNDS, len(rows))
    if rows.info.multi_label:
        raise UserError("data.balance", balance, "needs one label for each image; this data has several")
    labels = rows.info.labels()
    if len(labels) != len(rows) or not np.issubdtype(labels.dtype, np.integer):
        raise UserError("data.balance", balance, "needs one class for each row of a batch; these have none")
    return Balanced(seed, labels)


class Shuffled:
    """Every epoch is a permutation of its own, drawn from (seed, group, epoch).

    Grain's own shuffle walks through up to 65,536 numbers for an index of a small set (0.4 ms each for 100 examples);
    a permutation in memory costs 8 bytes an example and an array look-up.
    """

    def __init__(self, seed: int, group: int, count: int):
        self.seed, self.group, self.count = seed, group, count
        self._kept: dict[int, np.ndarray] = {}

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        epochs, places = np.divmod(positions, self.count)
        indices = np.empty(len(positions), np.int64)
        for epoch in np.unique(epochs):
            chosen = epochs == epoch
            indices[chosen] = self.permutation(int(epoch))[places[chosen]]
        return indices

    def permutation(self, epoch: int) -> np.ndarray:
        found = self._kept.get(epoch)
        if found is None:
            found = np.random.default_rng((self.seed % 2**64, self.group, epoch)).permutation(self.count)
            # A new dictionary, since other threads may be reading the old one.
            self._kept = dict([*self._kept.items()][1 - KEPT_EPOCHS :]) | {epoch: found}
        return found


class Balanced:
    """Rounds in which every class that has examples comes once, the classes in a new order each round; a class's
    examples come in a new order whenever all have been used.
    """

    def __init__(self, seed: int, labels: np.ndarray):
        self.members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        self.rounds = Shuffled(seed, ROUNDS, len(self.members))
        self.within = [Shuffled(seed, number, len(rows)) for number, rows in enumerate(self.members, ROUNDS + 1)]

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        rounds = positions // len(self.members)
        classes = self.rounds(positions)
        indices = np.empty(len(positions), np.int64)
        for number in np.unique(classes):
            chosen = classes == number
            indices[chosen] = self.members[number][self.within[number](rounds[chosen])]
        return indices


class Repeated:
    """Every example `repeats` times in a row (repeated augmentation: Hoffer et al. 2020,
    https://arxiv.org/abs/1901.09335). A batch of a size that `repeats` doesn't divide parts one such group in two.

    Positions count rows, so an epoch shows 1/`repeats` of the examples. In `repeats` epochs each has come `repeats`
    times; DeiT's sampler draws another random part in every epoch instead.
    """

    def __init__(self, once: Order, repeats: int):
        self.once, self.repeats = once, repeats

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        return self.once(positions // self.repeats)
