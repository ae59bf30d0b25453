"""Position embeddings added to the tokens, and their resizing to another grid of patches; rotary positions.

Of rotary positions queries and keys turn by angles, so that their product knows only the distance.
"""

import math
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.nn.initializers import normal

from vitzoo.errors import UserError

RULES = (
    (r"positions/embedding", (None, None, "embed")),
    (r"positions/[xy]", (None, "embed")),
)
"""Logical axes of the parameters here."""

METHODS = ("corner_linear", "corner_bicubic", "bilinear", "bicubic")

Grid = tuple[int, int]
Array = TypeVar("Array", np.ndarray, jax.Array)


class Learned1D(nnx.Module):
    """One learned vector for each token in raster order, normal with standard deviation `std`: [1, tokens, width]."""

    def __init__(self, tokens: int, width: int, *, std: float = 0.02, rngs: nnx.Rngs):
        self.embedding = nnx.Param(normal(std)(rngs.params(), (1, tokens, width)))

    def __call__(self) -> jax.Array:
        return self.embedding[...]


class Learned2D(nnx.Module):
    """A learned half for the column (x) beside a learned half for the row (y): [1, rows * columns, width].

    As in appendix D.4 of the ViT paper (https://arxiv.org/abs/2010.11929).
    """

    def __init__(self, grid: Grid, width: int, *, std: float = 0.02, rngs: nnx.Rngs):
        self.x = nnx.Param(normal(std)(rngs.params(), (grid[1], width // 2)))
        self.y = nnx.Param(normal(std)(rngs.params(), (grid[0], width // 2)))

    def __call__(self) -> jax.Array:
        x, y = self.x[...], self.y[...]
        shape = (len(y), len(x), x.shape[1])
        halves = [jnp.broadcast_to(x[None], shape), jnp.broadcast_to(y[:, None], shape)]
        return jnp.concatenate(halves, axis=-1).reshape(1, -1, 2 * x.shape[1])


class SinCos2D(nnx.Module):
    """Fixed sines and cosines of x and of y, a quarter of the width each: [1, rows * columns, width].

    As in MoCo v3 (https://arxiv.org/abs/2104.02057) and big_vision: `sin x, cos x, sin y, cos y`.
    """

    def __init__(self, grid: Grid, width: int, temperature: float = 10_000.0):
        self.grid, self.width, self.temperature = grid, width, temperature

    def __call__(self) -> jax.Array:
        quarter = self.width // 4
        speeds = self.temperature ** -(np.arange(quarter) / max(quarter - 1, 1))
        y, x = (axis.reshape(-1, 1) * speeds for axis in np.mgrid[: self.grid[0], : self.grid[1]])
        parts = [np.sin(x), np.cos(x), np.sin(y), np.cos(y)]
        return jnp.asarray(np.concatenate(parts, axis=1)[None], jnp.float32)


def sinusoids(positions: jax.Array, width: int) -> jax.Array:
    """Fixed sines and cosines of the position in a text, float32 [..., width] from int [...].

    As in section 3.5 of https://arxiv.org/abs/1706.03762: entry 2 i is sin(position / 10000^(2 i / width)), entry
    2 i + 1 its cosine.
    """
    speeds = 10_000.0 ** -(jnp.arange(width // 2, dtype=jnp.float32) / (width / 2))
    angles = positions[..., None].astype(jnp.float32) * speeds
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(*positions.shape, width)


def square_side(patches: int) -> int:
    """The side of the square that so many patches fill; 0 where they fill none."""
    side = math.isqrt(max(patches, 0))
    return side if side * side == patches else 0


def resize_table(
    table: Array,
    old_grid: Grid,
    new_grid: Grid,
    prefix_tokens: int = 0,
    method: str = "corner_linear",
    antialias: bool = False,
    offset: float = 0.0,
) -> Array:
    """A table of position embeddings for another grid of patches.

    Args:
        table: [..., prefix_tokens + rows * columns, width], raster order. Of NumPy it is resized in float64; of JAX, as
            inside jit, in its own type.
        old_grid: rows and columns of the table.
        new_grid: those wanted.
        prefix_tokens: first rows that belong to no patch; they stay bit for bit.
        method: `corner_linear` puts corners on corners, as the code of Google's ViT and big_vision does by
            `scipy.ndimage.zoom(order=1)`; unlike it, the last row and column never come out as zeros where a coordinate
            is rounded beyond the table (28 to 14, 16 to 30, 24 to 42). `corner_bicubic` does the same with the cubic of
            a = -0.75 (torchvision's ViT). `bilinear` and `bicubic` put the edges of pixels on edges, as torch, timm
            and JAX do.
        antialias: widen `bilinear` and `bicubic` when shrinking. `bicubic` is the cubic with a = -0.5 and weights
            renormalised at the border (PIL, JAX, timm), without it a = -0.75 and the border repeated (torch).
            Nothing for the two that put corners on corners.
        offset: added to the new sides where `bilinear` and `bicubic` divide by them: place i reads from
            (i + 0.5) · old / (new + offset) - 0.5, as the code of DINO and DINOv2 does with 0.1.

    Raises:
        UserError: the table's rows aren't those of the grid, or an unknown method.
    """
    if table.shape[-2] != prefix_tokens + old_grid[0] * old_grid[1]:
        shown = f"{old_grid[0]}x{old_grid[1]} patches and {prefix_tokens} prefix tokens"
        raise UserError("positions", table.shape[-2], f"rows, where {shown} need {prefix_tokens + np.prod(old_grid)}")
    if old_grid == new_grid:
        return table
    prefix, patches = table[..., :prefix_tokens, :], table[..., prefix_tokens:, :]
    image = patches.reshape(*table.shape[:-2], *old_grid, -1)
    image = resize_axis(image, new_grid[0], -3, method, antialias, offset)
    image = resize_axis(image, new_grid[1], -2, method, antialias, offset)
    resized = image.reshape(*table.shape[:-2], -1, table.shape[-1])
    joined: Any = jnp.concatenate if isinstance(table, jax.Array) else np.concatenate
    return joined([prefix, resized.astype(table.dtype)], axis=-2)


def resize_axis(x: Array, size: int, axis: int, method: str, antialias: bool = False, offset: float = 0.0) -> Array:
    """x with one dimension resized to `size`; see `resize_table`."""
    weights = resize_weights(x.shape[axis], size, method, antialias, offset)
    if isinstance(x, jax.Array):
        resized = jnp.tensordot(weights.astype(x.dtype), x, axes=(1, axis), precision="highest")
        return jnp.moveaxis(resized, 0, axis)
    return np.moveaxis(np.tensordot(weights, x, axes=(1, axis)), 0, axis)


def resize_weights(old: int, new: int, method: str, antialias: bool = False, offset: float = 0.0) -> np.ndarray:
    """float64 [new, old]: the share of each old place in each new one; rows sum to 1. See `resize_table`.

    Raises:
        UserError: an unknown method.
    """
    if method not in METHODS:
        raise UserError("position_resize", method, f"one of {', '.join(METHODS)}")
    corners, step = np.arange(new) * (old - 1) / max(new - 1, 1), old / (new + offset)
    if method == "corner_linear":
        return _linear(corners[:, None] - np.arange(old))
    smooth = antialias and method != "corner_bicubic"
    centres = corners if method == "corner_bicubic" else (np.arange(new) + 0.5) * step - 0.5
    kernel = _linear if method == "bilinear" else partial(_cubic, a=-0.5 if smooth else -0.75)
    stretch, margin = (max(step, 1), 0) if smooth else (1, 2)  # margin: places beyond the border count for the border
    weights = kernel((centres[:, None] - np.arange(-margin, old + margin)) / stretch)
    inside = weights[:, margin : margin + old]
    inside[:, 0] += weights[:, :margin].sum(1)
    inside[:, -1] += weights[:, margin + old :].sum(1)
    return inside / inside.sum(1, keepdims=True)


def _linear(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * (d**3 - 5 * d**2 + 8 * d - 4)
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


Rotation = tuple[jax.Array, jax.Array]
"""Cosines and sines, each [1 or batch, tokens, head_dim / 2]."""


def axial_rotation(grid: tuple[int, int], prefix: int, head_dim: int, base: float = 100.0) -> Rotation:
    """Angles of a 2-D grid (Heo et al. 2024, https://arxiv.org/abs/2403.13298; RoPE: https://arxiv.org/abs/2104.09864).

    The first half of the pairs turns with the row, the second with the column, at speeds `base ** -(4 i / head_dim)`
    a step, i from 0 to head_dim / 4 - 1.

    Args:
        grid: rows and columns.
        prefix: tokens before the patches; they don't turn, so that they meet every patch alike.
        head_dim: a multiple of 4.
    """
    speeds = base ** -(np.arange(head_dim // 4) / (head_dim // 4))
    rows, columns = (axis.reshape(-1, 1) * speeds for axis in np.mgrid[: grid[0], : grid[1]])
    angles = np.pad(np.concatenate([rows, columns], axis=1), ((prefix, 0), (0, 0)))[None]
    return jnp.asarray(np.cos(angles), jnp.float32), jnp.asarray(np.sin(angles), jnp.float32)


def rotation(positions: jax.Array, head_dim: int, base: float = 10_000.0) -> Rotation:
    """Angles along a text (Su et al. 2021, https://arxiv.org/abs/2104.09864): pair i turns `base ** -(2 i / head_dim)`
    a token.

    Args:
        positions: [1 or batch, tokens].
        head_dim: an even number.
    """
    speeds = base ** -(jnp.arange(head_dim // 2, dtype=jnp.float32) / (head_dim // 2))
    angles = positions[..., None].astype(jnp.float32) * speeds
    return jnp.cos(angles), jnp.sin(angles)


def rotate(x: jax.Array, rotation: Rotation) -> jax.Array:
    """Turns each pair (x[i], x[i + head_dim / 2]): [batch, tokens, heads, head_dim] to the same."""
    cos, sin = (part[:, :, None, :].astype(x.dtype) for part in rotation)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
