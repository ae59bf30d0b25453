"""Positions that join attention's logits: what matters is how far apart two tokens are.

On a grid, pairs with a prefix token (class token, registers) get nothing: these tokens stand nowhere on it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.nn.initializers import Initializer, normal

from vitzoo.nn.positions import Array, Grid, resize_axis

RULES = (
    (r".*/relative/embedding", (None, "head_dim")),
    (r".*/relative/table", (None, None, "heads")),
)
"""Logical axes of the parameters inside attention, for one layer."""

DISTANCE_RULES = ((r"(encoder|decoder)_distance_bias/table", (None, "heads")),)
"""Logical axes of a stack's `DistanceBias`."""


class RelativeEmbedding(nnx.Module):
    """1-D relative attention: the query times a learned embedding of the offset p_q - p_k in raster order.

    As in appendix D.4 of the ViT paper (https://arxiv.org/abs/2010.11929), after Shaw et al. 2018
    (https://arxiv.org/abs/1803.02155): one embedding for each offset, [2 * patches - 1, head_dim], shared by the heads
    of a layer, zero-based at offset -(patches - 1).
    """

    def __init__(self, patches: int, head_dim: int, *, rngs: nnx.Rngs):
        self.embedding = nnx.Param(normal(0.02)(rngs.params(), (2 * patches - 1, head_dim)))

    def __call__(self, query: jax.Array, places: jax.Array) -> jax.Array:
        """What joins the logits.

        Args:
            query: [batch, tokens, heads, head_dim], scaled as for the keys.
            places: [1 or batch, tokens - prefix], each patch's number in raster order.

        Returns:
            [batch, heads, tokens, tokens].
        """
        prefix, embedding = query.shape[1] - places.shape[1], self.embedding[...]
        every = jnp.einsum("bqhd,rd->bhqr", query[:, prefix:], embedding.astype(query.dtype))
        offsets = places[:, None, :, None] - places[:, None, None, :] + len(embedding) // 2
        return _without_prefix(jnp.take_along_axis(every, offsets, axis=-1), prefix)


class RelativeBias(nnx.Module):
    """One learned number for each head and each offset in rows and columns, [2 rows - 1, 2 columns - 1, heads].

    As in Swin (https://arxiv.org/abs/2103.14030) and BEiT.
    """

    def __init__(self, grid: Grid, heads: int, *, rngs: nnx.Rngs):
        self.table = nnx.Param(normal(0.02)(rngs.params(), (2 * grid[0] - 1, 2 * grid[1] - 1, heads)))

    def __call__(self, query: jax.Array, places: jax.Array) -> jax.Array:
        """What joins the logits: [1 or batch, heads, tokens, tokens]; arguments as `RelativeEmbedding`."""
        table = self.table[...]
        farthest = len(table) // 2, table.shape[1] // 2
        rows, columns = places // (farthest[1] + 1), places % (farthest[1] + 1)
        down = rows[:, :, None] - rows[:, None, :] + farthest[0]
        right = columns[:, :, None] - columns[:, None, :] + farthest[1]
        bias = jnp.moveaxis(table[down, right], -1, 1)
        return _without_prefix(bias, query.shape[1] - places.shape[1])


class DistanceBias(nnx.Module):
    """T5's: one learned number for each head and each bucket of distances in a text, shared by all layers of a stack.

    As in https://arxiv.org/abs/1910.10683, section 2.1: half of the buckets hold one distance each, the others grow
    as logarithms up to `max_distance`, beyond which all is one bucket.

    Args:
        bidirectional: half of the buckets are for keys after the query; else those all count as distance 0.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool,
        init: Initializer = normal(1.0),  # noqa: B008
        rngs: nnx.Rngs,
    ):
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional
        self.table = nnx.Param(init(rngs.params(), (buckets, num_heads), jnp.float32))

    def __call__(self, queries: jax.Array, keys: jax.Array) -> jax.Array:
        """What joins the logits.

        Args:
            queries, keys: [1 or batch, n], places in the row.

        Returns:
            float32 [1 or batch, heads, queries, keys].
        """
        bucket = self.bucket(keys[:, None, :] - queries[:, :, None])
        return jnp.moveaxis(jnp.take(self.table[...], bucket, axis=0), -1, 1)

    def bucket(self, offset: jax.Array) -> jax.Array:
        """The bucket of a key's place minus its query's, int32 of the same shape."""
        buckets, first = self.buckets, jnp.zeros_like(offset)
        distance = -jnp.minimum(offset, 0)
        if self.bidirectional:
            buckets //= 2
            first, distance = buckets * (offset > 0), jnp.abs(offset)
        exact = buckets // 2
        growth = jnp.log(jnp.maximum(distance, exact).astype(jnp.float32) / exact) / np.log(self.max_distance / exact)
        far = jnp.minimum(exact + (growth * (buckets - exact)).astype(jnp.int32), buckets - 1)
        return (first + jnp.where(distance < exact, distance, far)).astype(jnp.int32)


def resize_bias(table: Array, grid: Grid, method: str = "corner_linear", antialias: bool = False) -> Array:
    """A table of `RelativeBias` for another grid, the largest offsets on the largest.

    Args:
        table: [..., 2 rows - 1, 2 columns - 1, heads].
        grid: rows and columns wanted.
        method, antialias: see `resize_table`.
    """
    for axis, size in ((-3, grid[0]), (-2, grid[1])):
        table = resize_axis(table, 2 * size - 1, axis, method, antialias).astype(table.dtype)
    return table


def resize_embedding(table: Array, patches: int, method: str = "corner_linear", antialias: bool = False) -> Array:
    """A table of `RelativeEmbedding`, [..., 2 patches - 1, head_dim], stretched to another number of patches.

    An offset in raster order is a mixture of rows and columns, so this keeps only how far, not in which direction.
    """
    return resize_axis(table, 2 * patches - 1, -2, method, antialias).astype(table.dtype)


def _without_prefix(bias: jax.Array, prefix: int) -> jax.Array:
    return jnp.pad(bias, ((0, 0), (0, 0), (prefix, 0), (prefix, 0)))
