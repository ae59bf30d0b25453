"""Small datasets are decoded and resized once, kept in RAM, and batched by indexing."""

import functools
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from vitzoo.data.rows import RowReader
from vitzoo.data.settings import Data

AUTO_BYTES = 2**30


def fits(data: Data, count: int, size: tuple[int, int], channels: int) -> bool:
    """Whether `count` images of this size are to be held in RAM."""
    if data.in_memory == "auto":
        return count * size[0] * size[1] * channels <= AUTO_BYTES
    return data.in_memory == "always"


class Memory:
    """The examples of a source as arrays, each filled when first asked for.

    A row that can't be read stays at weight 0 under `bad_files=skip`, and raises under `stop`.
    """

    def __init__(self, reader: RowReader, count: int):
        height, width = reader.size
        self.filled = np.zeros(count, bool)
        self.images = np.zeros((count, height, width, reader.channels), np.uint8)
        self.labels: np.ndarray = np.zeros((count, *reader.label_shape), reader.label_type)
        self.weights = np.zeros(count, np.float32)
        self.ids = np.zeros(count, np.int64)

    def gather(self, reader: RowReader, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The batch of these examples, [len(indices), ...]."""
        missing = np.unique(indices[~self.filled[indices]])
        if len(missing):
            list(_threads().map(functools.partial(self._fill, reader), missing))
        return {
            "image": self.images[indices],
            "label": self.labels[indices],
            "weight": self.weights[indices],
            "id": self.ids[indices],
        }

    def _fill(self, reader: RowReader, index: int) -> None:
        row = reader.read(int(index))
        self.images[index], self.labels[index] = row["image"], row["label"]
        self.weights[index], self.ids[index] = row["weight"], row["id"]
        self.filled[index] = True


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, min(16, os.cpu_count() or 2)), thread_name_prefix="vitzoo-decode")


# It goes when its source goes, so a memory must not refer to the source.
_HELD: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def gather(reader: RowReader, indices: np.ndarray) -> dict[str, np.ndarray]:
    """The batch of these examples, [len(indices), ...], from the memory of the reader's source, which all streams and
    evaluations share that read it in the same way.
    """
    held = _HELD.setdefault(reader.source, {})
    key = (reader.size, reader.channels, reader.preprocessing, reader.bad_files)
    if key not in held:
        held[key] = Memory(reader, len(reader.source))
    return held[key].gather(reader, indices)
