"""Rows of small datasets are made once, kept in RAM, and batched by indexing."""

import functools
import os
import weakref
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from vitzoo.data.rows import Row
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source

AUTO_BYTES = 2**30


class Fixed(Protocol):
    """Rows that can be kept, as `examples.ExampleRows` are."""

    @property
    def source(self) -> Source: ...
    @property
    def fixed(self) -> Hashable: ...
    def __len__(self) -> int: ...
    def eval_row(self, index: int, /) -> Row: ...
    def padding(self) -> Row: ...


def fits(data: Data, size: int) -> bool:
    """Whether rows of so many bytes together are to be held in RAM."""
    if data.in_memory == "auto":
        return size <= AUTO_BYTES
    return data.in_memory == "always"


class HeldRows:
    """The rows of a source as arrays, each filled when first asked for.

    One that can't be read stays at weight 0 under `bad_files=skip`, and raises under `stop`.
    """

    def __init__(self, rows: Fixed):
        self.filled = np.zeros(len(rows), bool)
        row = {key: np.asarray(value) for key, value in rows.padding().items()}
        self.arrays = {key: np.zeros((len(rows), *value.shape), value.dtype) for key, value in row.items()}

    def gather(self, rows: Fixed, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The batch of these rows, [len(indices), ...]."""
        missing = np.unique(indices[~self.filled[indices]])
        if len(missing):
            list(_threads().map(functools.partial(self._fill, rows), missing))
        return {key: array[indices] for key, array in self.arrays.items()}

    def _fill(self, rows: Fixed, index: int) -> None:
        for key, value in rows.eval_row(int(index)).items():
            self.arrays[key][index] = value
        self.filled[index] = True


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, min(16, os.cpu_count() or 2)), thread_name_prefix="vitzoo-decode")


# It goes when its source goes, so what is held must not refer to the source.
_HELD: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def gather(rows: Fixed, indices: np.ndarray) -> dict[str, np.ndarray]:
    """The batch of these rows, [len(indices), ...], from what is held of their source, which all streams and
    evaluations share that read it in the same way.
    """
    held = _HELD.setdefault(rows.source, {})
    if rows.fixed not in held:
        held[rows.fixed] = HeldRows(rows)
    return held[rows.fixed].gather(rows, indices)
