"""Rotary positions: queries and keys turn by angles, so that their product knows only the distance."""

import jax
import jax.numpy as jnp
import numpy as np

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
