"""What batches are made of: rows of one split, by index, whatever they hold."""

import dataclasses
from typing import Protocol, runtime_checkable

import numpy as np

from vitzoo.data.sources.base import SourceInfo

Row = dict[str, np.ndarray | np.generic]
Batch = dict[str, np.ndarray]


class Rows(Protocol):
    """Rows of one split. Every array of a row has a fixed shape; all draws are functions of (seed, position).

    Besides what a model is given, a row holds `example_weight` float32 [] (0: it counts for nothing) and `id` int64 [].
    """

    @property
    def info(self) -> SourceInfo:
        """`info.n` is the number of rows of an epoch."""
        ...

    def __len__(self) -> int: ...

    def train_row(self, index: int, seed: int, position: int) -> Row:
        """Row `index`, as the training stream's `position`-th."""
        ...

    def eval_row(self, index: int) -> Row:
        """Row `index`, the same in every run."""
        ...

    def padding(self) -> Row:
        """A row of weight 0 and id -1 that fills up a batch."""
        ...


@runtime_checkable
class FallibleRows(Rows, Protocol):
    """Rows of which some may turn out unreadable; they have weight 0 and an id."""

    def where(self, id: int) -> str:
        """The file or record that the row with this id comes from, for messages."""
        ...


class HeldRows(Rows, Protocol):
    """Rows that may lie in RAM, where whole batches are cheaper than rows."""

    @property
    def held(self) -> bool:
        """Whether they do."""
        ...

    def train_batch(self, indices: np.ndarray, seed: int, positions: np.ndarray) -> Batch:
        """`train_row` of each, as one batch."""
        ...

    def eval_batch(self, indices: np.ndarray) -> Batch:
        """`eval_row` of each, as one batch."""
        ...


def held(rows: Rows) -> HeldRows | None:
    """The rows, if they lie in RAM."""
    return rows if getattr(rows, "held", False) else None  # type: ignore[return-value]


class Spread:
    """At most `most` rows of others, evenly from first to last. See `Rows`."""

    def __init__(self, rows: Rows, most: int):
        count = len(rows)
        self.rows = rows
        self.chosen = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
        self.info: SourceInfo = dataclasses.replace(rows.info, n=len(self.chosen))

    def __len__(self) -> int:
        return len(self.chosen)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        """See `Rows`."""
        return self.rows.train_row(int(self.chosen[index]), seed, position)

    def eval_row(self, index: int) -> Row:
        """See `Rows`."""
        return self.rows.eval_row(int(self.chosen[index]))

    def padding(self) -> Row:
        """See `Rows`."""
        return self.rows.padding()
