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
    """

    ours: Callable[..., Arrays]
    theirs: Callable[..., Arrays]


SAME = Layout(lambda x: (x,), lambda x: (x,))
TRANSPOSED = Layout(lambda x: (x.T,), lambda x: (x.T,))
"""torch's Linear [out, in]."""
PATCHES = Layout(lambda x: (x.transpose(2, 3, 1, 0),), lambda x: (x.transpose(3, 2, 0, 1),))
"""torch's convolution [width, channels, rows, columns]."""


def reshaped(theirs: tuple[int, ...], ours: tuple[int, ...]) -> Layout:
    """The same numbers in the same order."""
    return Layout(lambda x: (x.reshape(ours),), lambda x: (x.reshape(theirs),))


def to_heads(num_heads: int, *, transposed: bool = True) -> Layout:
    """One projection to heads: [heads · head_dim, width], or [width, heads · head_dim] where not `transposed`."""

    def ours(kernel: np.ndarray) -> Arrays:
        kernel = kernel.T if transposed else kernel
        return (kernel.reshape(len(kernel), num_heads, -1),)

    def theirs(kernel: np.ndarray) -> Arrays:
        merged = kernel.reshape(len(kernel), -1)
        return (merged.T if transposed else merged,)

    return Layout(ours, theirs)


def to_heads_bias(num_heads: int) -> Layout:
    """Its bias, [heads · head_dim]."""
    return Layout(lambda x: (x.reshape(num_heads, -1),), lambda x: (x.reshape(-1),))


def from_heads(num_heads: int, *, transposed: bool = True) -> Layout:
    """The projection that joins heads: [width, heads · head_dim], or the other way round where not `transposed`."""

    def ours(kernel: np.ndarray) -> Arrays:
        kernel = kernel.T if transposed else kernel
        return (kernel.reshape(num_heads, -1, kernel.shape[-1]),)

    def theirs(kernel: np.ndarray) -> Arrays:
        merged = kernel.reshape(-1, kernel.shape[-1])
        return (merged.T if transposed else merged,)

    return Layout(ours, theirs)


def fused(parts: int, each: Layout, *, axis: int) -> Layout:
    """Several arrays of one layout in one, side by side on `axis` (queries, keys, values)."""

    def ours(whole: np.ndarray) -> Arrays:
        return tuple(each.ours(part)[0] for part in np.split(whole, parts, axis))

    def theirs(*arrays: np.ndarray) -> Arrays:
        return (np.concatenate([each.theirs(array)[0] for array in arrays], axis),)

    return Layout(ours, theirs)
