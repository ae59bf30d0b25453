"""The input transformation of images: patches become tokens."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import lecun_normal

from vitzoo.nn.dense import Dense
from vitzoo.nn.execution import DEFAULT, Execution

RULES = (
    (r"patch_embedding/kernel", (None, None, None, "embed")),
    (r"patch_embedding/bias", (None,)),
)
"""Logical axes of the parameters here."""


class PatchEmbedding(Dense):
    """A linear map of each patch: images [batch, height, width, channels] to tokens [batch, patches, width].

    The same as a convolution whose stride is its kernel [height, width, channels, width], as one matrix product.
    """

    def __init__(
        self,
        patch: tuple[int, int],
        channels: int,
        width: int,
        *,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        super().__init__((*patch, channels), width, kernel_init=lecun_normal(), rngs=rngs, execution=execution)

    def __call__(self, images: jax.Array) -> jax.Array:
        return super().__call__(patches(images, self.inputs[:2]))


def patches(images: jax.Array, patch: tuple[int, ...]) -> jax.Array:
    """[batch, height, width, channels] cut in raster order into [batch, patches, rows, columns, channels]."""
    batch, height, width, channels = images.shape
    grid = (height // patch[0], width // patch[1])
    cut = images.reshape(batch, grid[0], patch[0], grid[1], patch[1], channels)
    return jnp.swapaxes(cut, 2, 3).reshape(batch, grid[0] * grid[1], *patch, channels)
