"""Resizing without a filter, as `tf.image.resize` and `jax.image.resize(antialias=False)` do: PIL always filters."""

import functools

import numpy as np


def resample_points(image: np.ndarray, size: tuple[int, int], method: str) -> np.ndarray:
    """uint8 [H, W, C] to float32 [height, width, C]: each new pixel interpolates its nearest neighbours, whatever the
    scale.

    Pixel centres lie at half-integers; neighbours beyond the border count nothing, the others are scaled up for them.
    """
    if method == "bilinear":
        return _between_two(_between_two(image, size[1], 1), size[0], 0)
    rows = point_weights(image.shape[0], size[0], method)
    columns = point_weights(image.shape[1], size[1], method)
    image, rows = _looked_at(image, rows, 0)
    image, columns = _looked_at(image, columns, 1)
    # in float64, so that what is a whole level stays one, and cutting fractions off doesn't take it to the one below
    values = np.einsum("yh,hwc->ywc", rows, image.astype(np.float64), optimize=True)
    return np.einsum("xw,ywc->yxc", columns, values, optimize=True).astype(np.float32)


def _looked_at(image: np.ndarray, weights: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels of an axis that count in any new one: of a large image, a small part of it."""
    counting = np.flatnonzero(weights.any(0))
    return np.take(image, counting, axis), weights[:, counting]


def _between_two(x: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Bilinear along one axis in float32, as TensorFlow computes it: the first neighbour and a share of the step to the
    second, across before down, so that cut off fractions are those of its pixels too.
    """
    old = x.shape[axis]
    at = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * (np.float32(old) / np.float32(size)) - np.float32(0.5)
    first = np.floor(at)
    share = (at - first).reshape([-1 if axis == other else 1 for other in range(x.ndim)])
    before, after = (
        np.take(x, np.clip(first + step, 0, old - 1).astype(int), axis=axis).astype(np.float32)
        for step in (np.float32(0), np.float32(1))
    )
    return before + (after - before) * share


@functools.lru_cache(maxsize=256)
def point_weights(old: int, new: int, method: str) -> np.ndarray:
    """How much each of `old` pixels counts in each of `new` ones, float64 [new, old], rows summing to 1."""
    centres = (np.arange(new) + 0.5) * old / new - 0.5
    distance = np.abs(centres[:, None] - np.arange(old)[None, :])
    weights = _kernel(distance, method)
    return weights / weights.sum(1, keepdims=True)


def _kernel(x: np.ndarray, method: str) -> np.ndarray:
    if method == "bicubic":  # Keys 1981, a = -0.5
        near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
        return np.where(x < 1, near, np.where(x < 2, far, 0))
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)
