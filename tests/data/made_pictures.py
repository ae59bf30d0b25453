"""Small pictures that tests write and recognise."""

import pathlib

import numpy as np
from PIL import Image


def picture(path: pathlib.Path, size: tuple[int, int] = (8, 8), color=(255, 0, 0), mode: str = "RGB", **options):
    """Writes a picture of one colour; size is (width, height)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path, **options)
    return path


def numbered(count: int) -> np.ndarray:
    """Images [count, 4, 4, 1] whose first two pixels hold their number."""
    images = np.zeros((count, 4, 4, 1), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = np.arange(count) // 256, np.arange(count) % 256
    return images
