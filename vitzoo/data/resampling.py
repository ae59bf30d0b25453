"""Resizing without a filter, as `tf.image.resize` and `jax.image.resize(antialias=False)` do: PIL always filters."""

import functools

import numpy as np


def resample_points(image: np.ndarray, size: tuple[int, int], method: str) -> np.ndarray:
    """uint8 [H, W, C] to [height, width, C]: each new pixel interpolates its nearest neighbours, whatever the scale.

    Pixel centres lie at half-integers; neighbours beyond the border count nothing, the others are scaled up for them.
    """
    rows = point_weights(image.shape[0], size[0], method)
    columns = point_weights(image.shape[1], size[1], method)
    values = np.einsum("yh,hwc->ywc", rows, image.astype(np.float32), optimize=True)
    values = np.einsum("xw,ywc->yxc", columns, values, optimize=True)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


@functools.lru_cache(maxsize=256)
def point_weights(old: int, new: int, method: str) -> np.ndarray:
    """How much each of `old` pixels counts in each of `new` ones, float32 [new, old], rows summing to 1."""
    centres = (np.arange(new) + 0.5) * old / new - 0.5
    distance = np.abs(centres[:, None] - np.arange(old)[None, :])
    weights = _kernel(distance, method)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def _kernel(x: np.ndarray, method: str) -> np.ndarray:
    if method == "bilinear":
        return np.maximum(0, 1 - x)
    if method == "bicubic":  # Keys 1981, a = -0.5
        near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
        return np.where(x < 1, near, np.where(x < 2, far, 0))
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)
