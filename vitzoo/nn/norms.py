"""Normalisation over the width or over a batch, computed in float32.

The variance is the mean of the squared distance from the mean. Mean of squares minus square of the mean loses every
digit where the mean is large: rows 9999, 10000, 10001, 10000 come out as -1000, 0, 1000, 0 instead of +-1.414.
"""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from vitzoo.nn.execution import DEFAULT, Execution

RULES = ((r"(.*/)?\w*norm\w*/(scale|bias)", (None,)),)
"""Logical axes of the parameters here, for one layer."""


class LayerNorm(nnx.Module):
    """Layer normalisation (Ba et al. 2016, https://arxiv.org/abs/1607.06450): [..., width] to the same.

    Args:
        width: size of the last dimension.
        epsilon: added to the variance.
        bias: whether there is one.
    """

    def __init__(self, width: int, *, epsilon: float = 1e-6, bias: bool = True, execution: Execution = DEFAULT):
        self.epsilon, self.execution = epsilon, execution
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width)) if bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        bias = jnp.zeros_like(self.scale[...]) if self.bias is None else self.bias[...]
        function = _layer_norm_with_gradient if self.execution.uses_custom_gradient else _layer_norm
        return function(x, self.scale[...], bias, self.epsilon).astype(self.execution.compute)


class RMSNorm(nnx.Module):
    """Division by the root mean square (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467), as T5 has it."""

    def __init__(self, width: int, *, epsilon: float = 1e-6, execution: Execution = DEFAULT):
        self.epsilon, self.execution = epsilon, execution
        self.scale = nnx.Param(jnp.ones(width))

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.astype(jnp.float32)
        y = x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + self.epsilon)
        return (y * self.scale[...]).astype(self.execution.compute)


class BatchNorm(nnx.Module):
    """Batch normalisation (Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167): [batch, ..., channels] to the
    same.

    Training takes mean and variance of the rows of a micro-batch on all devices, and moves the running averages towards
    them; evaluation takes the running averages.

    Args:
        channels: size of the last dimension.
        momentum: how much of the running averages stays at each call in training.
        epsilon: added to the variance.
    """

    def __init__(self, channels: int, *, momentum: float = 0.9, epsilon: float = 1e-5, execution: Execution = DEFAULT):
        self.momentum, self.epsilon, self.execution = momentum, epsilon, execution
        self.scale, self.bias = nnx.Param(jnp.ones(channels)), nnx.Param(jnp.zeros(channels))
        self.mean, self.variance = nnx.BatchStat(jnp.zeros(channels)), nnx.BatchStat(jnp.ones(channels))

    def __call__(self, x: jax.Array, *, train: bool = False, example_weight: jax.Array | None = None) -> jax.Array:
        """The normalised x.

        Args:
            x: [batch, ..., channels].
            train: take the statistics of this batch, unless it has no weight at all.
            example_weight: how much each row counts in them, [batch]; None counts all alike. Padding has weight 0.
        """
        x = x.astype(jnp.float32)
        mean, variance = self.mean[...], self.variance[...]
        if train:
            rows = jnp.ones(len(x)) if example_weight is None else example_weight.astype(jnp.float32)
            mean, variance = _of_rows(x, rows, mean, variance)
            kept = jnp.where(rows.sum() > 0, self.momentum, 1.0)
            self.mean[...] = lax.stop_gradient(kept * self.mean[...] + (1 - kept) * mean)
            self.variance[...] = lax.stop_gradient(kept * self.variance[...] + (1 - kept) * variance)
        y = (x - mean) * lax.rsqrt(variance + self.epsilon)
        return (y * self.scale[...] + self.bias[...]).astype(self.execution.compute)


def _of_rows(x: jax.Array, rows: jax.Array, mean: jax.Array, variance: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weighted mean and variance by channel; those given where no row has any weight."""
    weights = rows.reshape(-1, *(1,) * (x.ndim - 1))
    x = jnp.where(weights > 0, x, 0)  # what fills up a batch may hold NaN
    axes, total = tuple(range(x.ndim - 1)), rows.sum()
    count = jnp.where(total > 0, total, 1) * (x[0, ..., 0].size)
    own_mean = (weights * x).sum(axes) / count
    own_variance = (weights * jnp.square(x - own_mean)).sum(axes) / count
    return jnp.where(total > 0, own_mean, mean), jnp.where(total > 0, own_variance, variance)


def _normalise(x: jax.Array, epsilon: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Normalised x, its mean and the inverse of its deviation."""
    x = x.astype(jnp.float32)
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    inverse = lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


def _layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float) -> jax.Array:
    return _normalise(x, epsilon)[0] * scale + bias


_layer_norm_with_gradient = jax.custom_vjp(_layer_norm, nondiff_argnums=(3,))


def _forward(x, scale, bias, epsilon):
    y, mean, inverse = _normalise(x, epsilon)
    return y * scale + bias, (x, mean, inverse, scale)


def _backward(epsilon, saved, dy):
    x, mean, inverse, scale = saved
    y, dscaled = (x.astype(jnp.float32) - mean) * inverse, dy * scale
    along = partial(jnp.mean, axis=-1, keepdims=True)
    dx = inverse * (dscaled - along(dscaled) - y * along(dscaled * y))
    rows = tuple(range(x.ndim - 1))
    return dx.astype(x.dtype), (dy * y).sum(rows), dy.sum(rows)


_layer_norm_with_gradient.defvjp(_forward, _backward)
