"""How arrays of a published file hold ours, for one layer at a time, and the way back.

Every layout moves numbers and never computes with them, so that out and in again is bitwise the same.
Ours: kernels [in, out]; queries, keys and values [width, heads, head_dim]; what joins heads again [heads, head_dim,
width]; patches [rows, columns, channels, width].
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Arrays = tuple[np.ndarray, ...]


class Layout(NamedTuple):
    """Both directions.

    Attributes:
        ours: our arrays from the file's.
        theirs: the file's from ours, undoing it.
        dimensions: how many the file's has; None where ours has as many, and the model tells.
    """

    ours: Callable[[np.ndarray], Arrays]
    theirs: Callable[..., np.ndarray]
    dimensions: int | None


SAME = Layout(lambda x: (x,), lambda x: x, None)
VECTOR, MATRIX = SAME._replace(dimensions=1), SAME._replace(dimensions=2)
TRANSPOSED = Layout(lambda x: (x.T,), lambda x: x.T, 2)
"""torch's Linear [out, in]."""
PATCHES = Layout(lambda x: (x.transpose(2, 3, 1, 0),), lambda x: x.transpose(3, 2, 0, 1), 4)
"""torch's convolution [width, channels, rows, columns]."""


def reshaped(theirs: tuple[int, ...], ours: tuple[int, ...]) -> Layout:
    """The same numbers in the same order."""

    def checked(x: np.ndarray) -> Arrays:
        if x.shape != theirs:
            raise ValueError(f"{theirs} is right")
        return (x.reshape(ours),)

    return Layout(checked, lambda x: x.reshape(theirs), len(theirs))


def heads(count: int, *, joins: bool = False, transposed: bool = True) -> Layout:
    """A projection to heads, [heads · head_dim, width], or the one that `joins` them, [width, heads · head_dim]; the
    other way round where not `transposed`.
    """

    def ours(kernel: np.ndarray) -> Arrays:
        kernel = kernel.T if transposed else kernel
        rows, columns = kernel.shape
        return (kernel.reshape((count, -1, columns) if joins else (rows, count, -1)),)

    def theirs(kernel: np.ndarray) -> np.ndarray:
        merged = kernel.reshape((-1, kernel.shape[-1]) if joins else (len(kernel), -1))
        return merged.T if transposed else merged

    return Layout(ours, theirs, 2)


def heads_bias(count: int) -> Layout:
    """The bias of a projection to heads, [heads · head_dim]."""
    return Layout(lambda x: (x.reshape(count, -1),), lambda x: x.reshape(-1), 1)


def fused(parts: int, each: Layout, *, axis: int) -> Layout:
    """Several arrays of one layout in one, side by side on `axis` (queries, keys, values)."""

    def ours(whole: np.ndarray) -> Arrays:
        return tuple(each.ours(part)[0] for part in np.split(whole, parts, axis))

    def theirs(*arrays: np.ndarray) -> np.ndarray:
        return np.concatenate([each.theirs(array) for array in arrays], axis)

    return Layout(ours, theirs, each.dimensions)


def torch_layout(path: str, shape: tuple[int, ...], *, transposed: bool = True) -> Layout:
    """Of a leaf in torch's files, by its path and its shape in one layer; `transposed` as for `heads`."""
    leaf, dimensions = path.rpartition("/")[2], len(shape)
    if leaf == "kernel" and dimensions == 3:
        joins = path.endswith("/out/kernel")
        return heads(shape[0] if joins else shape[1], joins=joins, transposed=transposed)
    if leaf == "kernel":
        return PATCHES if dimensions == 4 else TRANSPOSED if transposed else MATRIX
    if leaf == "bias" and dimensions == 2:
        return heads_bias(shape[0])
    return {1: VECTOR, 2: MATRIX}.get(dimensions, SAME)
