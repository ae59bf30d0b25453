"""The input transformations: patches of an image, and ids of a vocabulary, become tokens."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import Initializer, lecun_normal, normal

from vitzoo.nn.dense import Dense, matmul
from vitzoo.nn.execution import DEFAULT, Execution

RULES = (
    (r"patch_embedding/kernel", (None, None, None, "embed")),
    (r"patch_embedding/bias", (None,)),
)
"""Logical axes of the parameters of a `PatchEmbedding`."""

VOCABULARY_RULES = ((r"embedding/table", ("vocabulary", "embed")),)
"""Logical axes of a vocabulary's `Embedding`."""

PLACE_RULES = ((r"(position|type)_embedding/table", (None, "embed")),)
"""Logical axes of the `Embedding`s of places and of kinds of sentences."""


class PatchEmbedding(Dense):
    """A linear map of each patch: images [batch, height, width, channels] to tokens [batch, patches, width].

    The same as a convolution whose stride is its kernel [height, width, channels, width], as one matrix product.

    Args:
        norm: makes a norm of a size: one of a patch's pixels before the map, one of its token after it.
    """

    def __init__(
        self,
        patch: tuple[int, int],
        channels: int,
        width: int,
        *,
        bias: bool = True,
        norm: Callable[[int], nnx.Module] | None = None,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        size = (*patch, channels)
        super().__init__(size, width, bias=bias, kernel_init=lecun_normal(), rngs=rngs, execution=execution)
        self.input_norm: Any = None if norm is None else norm(math.prod(size))
        self.output_norm: Any = None if norm is None else norm(width)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = patches(images, self.inputs[:2])
        if self.input_norm is None:
            return super().__call__(x)
        x = self.input_norm(x.reshape(*x.shape[:2], -1)).reshape(x.shape)
        return self.output_norm(super().__call__(x))


def patches(images: jax.Array, patch: tuple[int, ...]) -> jax.Array:
    """[batch, height, width, channels] cut in raster order into [batch, patches, rows, columns, channels]."""
    batch, height, width, channels = images.shape
    grid = (height // patch[0], width // patch[1])
    cut = images.reshape(batch, grid[0], patch[0], grid[1], patch[1], channels)
    return jnp.swapaxes(cut, 2, 3).reshape(batch, grid[0] * grid[1], *patch, channels)


class Embedding(nnx.Module):
    """A learned vector for each of `count` ids: int [...] to [..., width].

    Args:
        init: of the table [count, width].
    """

    def __init__(
        self,
        count: int,
        width: int,
        *,
        init: Initializer = normal(0.02),  # noqa: B008
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        self.execution = execution
        self.table = nnx.Param(init(rngs.params(), (count, width), jnp.float32))

    def __call__(self, ids: jax.Array) -> jax.Array:
        return jnp.take(self.table[...], ids, axis=0).astype(self.execution.compute)

    def logits(self, x: jax.Array) -> jax.Array:
        """The head that shares the table: [..., width] to float32 [..., count]."""
        return vocabulary_logits(x, self.table[...].T, self.execution)


def vocabulary_logits(x: jax.Array, kernel: jax.Array, execution: Execution) -> jax.Array:
    """`x · kernel` with sums in float32: [..., width] and [width, vocabulary] to float32 [..., vocabulary]."""
    x, kernel = x.astype(execution.compute), kernel.astype(execution.compute)
    if execution.uses_custom_gradient and execution.compute == jnp.float32:
        return matmul(x, kernel, custom_gradient=True)
    return jnp.matmul(x, kernel, preferred_element_type=jnp.float32)
