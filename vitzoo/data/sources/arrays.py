"""Datasets that are arrays in RAM."""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from vitzoo.data.duplicates import content_key
from vitzoo.data.sources.base import Table


def array_table(
    name: str, classes: Sequence[str], images: np.ndarray, labels: np.ndarray, splits: Mapping[str, np.ndarray]
) -> Table:
    """A table over images uint8 [N, H, W, C] and labels int32 [N] or float32 [N, classes]."""
    return Table(
        name=name,
        classes=tuple(classes),
        labels=labels,
        checksums=np.array([zlib.crc32(image) for image in np.ascontiguousarray(images)], np.uint32),
        splits=splits,
        channels=images.shape[-1],
        image_shape=(images.shape[1], images.shape[2]),
        read=images.__getitem__,
        contents=np.array([content_key(image.tobytes()) for image in images], np.uint64),
    )
