"""Small datasets are decoded and resized once, kept in RAM, and batched by indexing."""

import functools
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from vitzoo.data.images import pixel_type
from vitzoo.data.settings import Data, Preprocessing

AUTO_BYTES = 2**30


class Decodes(Protocol):
    """What decodes the images of a source, all to one size, as `image_rows.ImageRows` does."""

    @property
    def source(self) -> Any: ...
    @property
    def data(self) -> Data: ...
    @property
    def preprocessing(self) -> Preprocessing: ...
    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def channels(self) -> int: ...
    @property
    def label_shape(self) -> tuple[int, ...]: ...
    @property
    def label_type(self) -> Any: ...
    def __len__(self) -> int: ...
    def eval_row(self, index: int, /) -> dict[str, Any]: ...


def fits(data: Data, size: int) -> bool:
    """Whether images of so many bytes together are to be held in RAM."""
    if data.in_memory == "auto":
        return size <= AUTO_BYTES
    return data.in_memory == "always"


class HeldImages:
    """The examples of a source as arrays, each filled when first asked for.

    A row that can't be read stays at weight 0 under `bad_files=skip`, and raises under `stop`.
    """

    def __init__(self, rows: Decodes, count: int):
        height, width = rows.size
        self.filled = np.zeros(count, bool)
        self.images: np.ndarray = np.zeros((count, height, width, rows.channels), pixel_type(rows.preprocessing))
        self.labels: np.ndarray = np.zeros((count, *rows.label_shape), rows.label_type)
        self.weights = np.zeros(count, np.float32)
        self.ids = np.zeros(count, np.int64)

    def gather(self, rows: Decodes, indices: np.ndarray) -> dict[str, np.ndarray]:
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

    def _fill(self, rows: Decodes, index: int) -> None:
        row = rows.eval_row(int(index))
        self.images[index], self.labels[index] = row["image"], row["label"]
        self.weights[index], self.ids[index] = row["weight"], row["id"]
        self.filled[index] = True


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, min(16, os.cpu_count() or 2)), thread_name_prefix="vitzoo-decode")


# It goes when its source goes, so what is held must not refer to the source.
_HELD: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


def gather(rows: Decodes, indices: np.ndarray) -> dict[str, np.ndarray]:
    """The batch of these examples, [len(indices), ...], from what is held of the rows' source, which all streams and
    evaluations share that read it in the same way.
    """
    held = _HELD.setdefault(rows.source, {})
    key = (rows.size, rows.channels, rows.preprocessing, rows.data.bad_files)
    if key not in held:
        held[key] = HeldImages(rows, len(rows))
    return held[key].gather(rows, indices)
