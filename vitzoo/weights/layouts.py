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
    """Both directions; each takes and gives as many arrays as its side has.

    Attributes:
        ours: from the file's arrays.
        theirs: from ours, undoing it.
        dimensions: how many an array of the file has; None where ours has as many, and the model tells.
    """

    ours: Callable[..., Arrays]
    theirs: Callable[..., Arrays]
    dimensions: int | None


def _same(x: np.ndarray) -> Arrays:
    return (x,)


def _transposed(x: np.ndarray) -> Arrays:
    return (x.T,)


SAME = Layout(_same, _same, None)
VECTOR, MATRIX = SAME._replace(dimensions=1), SAME._replace(dimensions=2)
TRANSPOSED = Layout(_transposed, _transposed, 2)
"""torch's Linear [out, in]."""
PATCHES = Layout(lambda x: (x.transpose(2, 3, 1, 0),), lambda x: (x.transpose(3, 2, 0, 1),), 4)
"""torch's convolution [width, channels, rows, columns]."""


def reshaped(theirs: tuple[int, ...], ours: tuple[int, ...]) -> Layout:
    """The same numbers in the same order."""

    def checked(x: np.ndarray) -> Arrays:
        if x.shape != theirs:
            raise ValueError(f"{theirs} is right")
        return (x.reshape(ours),)

    return Layout(checked, lambda x: (x.reshape(theirs),), len(theirs))


def to_heads(num_heads: int, *, transposed: bool = True) -> Layout:
    """One projection to heads: [heads · head_dim, width], or [width, heads · head_dim] where not `transposed`."""

    def ours(kernel: np.ndarray) -> Arrays:
        kernel = kernel.T if transposed else kernel
        return (kernel.reshape(len(kernel), num_heads, -1),)

    def theirs(kernel: np.ndarray) -> Arrays:
        merged = kernel.reshape(len(kernel), -1)
        return (merged.T if transposed else merged,)

    return Layout(ours, theirs, 2)


def to_heads_bias(num_heads: int) -> Layout:
    """Its bias, [heads · head_dim]."""
    return Layout(lambda x: (x.reshape(num_heads, -1),), lambda x: (x.reshape(-1),), 1)


def from_heads(num_heads: int, *, transposed: bool = True) -> Layout:
    """The projection that joins heads: [width, heads · head_dim], or the other way round where not `transposed`."""

    def ours(kernel: np.ndarray) -> Arrays:
        kernel = kernel.T if transposed else kernel
        return (kernel.reshape(num_heads, -1, kernel.shape[-1]),)

    def theirs(kernel: np.ndarray) -> Arrays:
        merged = kernel.reshape(-1, kernel.shape[-1])
        return (merged.T if transposed else merged,)

    return Layout(ours, theirs, 2)


def fused(parts: int, each: Layout, *, axis: int) -> Layout:
    """Several arrays of one layout in one, side by side on `axis` (queries, keys, values)."""

    def ours(whole: np.ndarray) -> Arrays:
        return tuple(each.ours(part)[0] for part in np.split(whole, parts, axis))

    def theirs(*arrays: np.ndarray) -> Arrays:
        return (np.concatenate([each.theirs(array)[0] for array in arrays], axis),)

    return Layout(ours, theirs, each.dimensions)
