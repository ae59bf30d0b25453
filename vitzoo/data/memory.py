"""Small datasets are decoded and resized once, kept in RAM, and batched by indexing."""

import functools
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from vitzoo.data.images import pixel_type
from vitzoo.data.settings import Data

if TYPE_CHECKING:  # they hold each other
    from vitzoo.data.image_rows import ImageRows

AUTO_BYTES = 2**30


def fits(data: Data, size: int) -> bool:
    """Whether images of so many bytes together are to be held in RAM."""
    if data.in_memory == "auto":
        return size <= AUTO_BYTES
    return data.in_memory == "always"


class Memory:
    """The examples of a source as arrays, each filled when first asked for.

    A row that can't be read stays at weight 0 under `bad_files=skip`, and raises under `stop`.
    """

    def __init__(self, rows: "ImageRows", count: int):
        height, width = rows.size
        self.filled = np.zeros(count, bool)
        self.images: np.ndarray = np.zeros((count, height, width, rows.channels), pixel_type(rows.preprocessing))
        self.labels: np.ndarray = np.zeros((count, *rows.label_shape), rows.label_type)
        self.weights = np.zeros(count, np.float32)
        self.ids = np.zeros(count, np.int64)

    def gather(self, rows: "ImageRows", indices: np.ndarray) -> dict[str, np.ndarray]:
        """The batch of these examples, [len(indices), ...]."""
        missing = np.unique(indices[~self.filled[indices]])
        if len(missing):
            list(_threads().map(functools.partial(self._fill, rows), missing))
        return {
            "image": self.images[indices],
            "label": self.labels[indices],
            "weight": self.weights[indices],
            "id": self.ids[indices],
        }

    def _fill(self, rows: "ImageRows", index: int) -> None:
        row = rows.eval_row(int(index))
        self.images[index], self.labels[index] = row["image"], row["label"]
        self.weights[index], self.ids[index] = row["weight"], row["id"]
        self.filled[index] = True


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, min(16, os.cpu_count() or 2)), thread_name_prefix="vitzoo-decode")


# It goes when its source goes, so a memory must not refer to the source.
_HELD: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def gather(rows: "ImageRows", indices: np.ndarray) -> dict[str, np.ndarray]:
    """The batch of these examples, [len(indices), ...], from the memory of the rows' source, which all streams and
    evaluations share that read it in the same way.
    """
    held = _HELD.setdefault(rows.source, {})
    key = (rows.size, rows.channels, rows.preprocessing, rows.data.bad_files)
    if key not in held:
        held[key] = Memory(rows, len(rows))
    return held[key].gather(rows, indices)
