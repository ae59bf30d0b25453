"""Some rows of many, evenly spread: a shorter evaluation, the same in every run."""

import dataclasses

import numpy as np

from vitzoo.data.rows import Row, Rows
from vitzoo.data.sources.base import SourceInfo


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
