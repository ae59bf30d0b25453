"""The part of a block that transforms each token by itself."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from vitzoo.nn.constrain import constrain
from vitzoo.nn.dense import Dense
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.stochastic import dropout, fold

RULES = (
    (r".*/up/kernel", ("embed", "mlp")),
    (r".*/up/bias", ("mlp",)),
    (r".*/down/kernel", ("mlp", "embed")),
    (r".*/down/bias", (None,)),
)
"""Logical axes of the parameters here, for one layer."""


class MLP(nnx.Module):
    """Two linear layers with a GELU between: [..., width] to the same.

    Args:
        gelu: `tanh` (Google's ViT, GPT-2) or `exact` (BERT, timm's ViT).
        dropout: rate after the GELU and after the second layer.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        gelu: str = "tanh",
        dropout: float = 0.0,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        self.gelu, self.dropout, self.execution = gelu, dropout, execution
        self.up = Dense(width, hidden, rngs=rngs, execution=execution)
        self.down = Dense(hidden, width, rngs=rngs, execution=execution)

    def __call__(self, x: jax.Array, key: jax.Array | None = None) -> jax.Array:
        x = gelu(self.up(x), self.gelu, own=self.execution.own)
        x = constrain(x, ("batch",) + (None,) * (x.ndim - 2) + ("mlp",))
        x = dropout(x, self.dropout, fold(key, 0))
        return dropout(self.down(x), self.dropout, fold(key, 1))


def gelu(x: jax.Array, form: str, *, own: bool = False) -> jax.Array:
    """x times the normal distribution function (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415).

    Args:
        form: `exact`, or `tanh` for the approximation: at most 4.73e-4 away, near x = +-2.69.
        own: take the derivatives written here, which keep x alone. They have no forward mode.
    """
    if own:
        return _own_tanh(x) if form == "tanh" else _own_exact(x)
    return jax.nn.gelu(x, approximate=form == "tanh")


_own_exact = jax.custom_vjp(lambda x: jax.nn.gelu(x, approximate=False))
_own_tanh = jax.custom_vjp(lambda x: jax.nn.gelu(x, approximate=True))


def _exact_backward(x, dy):
    distribution = 0.5 * (1 + lax.erf(x * math.sqrt(0.5)))
    density = jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return (dy * (distribution + x * density).astype(dy.dtype),)


def _tanh_backward(x, dy):
    """The approximation is x times the logistic function of z; e below 1 keeps its digits on both sides."""
    scale, cubic = 2 * math.sqrt(2 / math.pi), 0.044715
    z = scale * (x + cubic * x * x * x)
    e = jnp.exp(-jnp.abs(z))
    logistic, slope = jnp.where(z < 0, e, 1) / (1 + e), e / jnp.square(1 + e)
    return (dy * (logistic + x * slope * scale * (1 + 3 * cubic * x * x)).astype(dy.dtype),)


_own_exact.defvjp(lambda x: (_own_exact(x), x), _exact_backward)
_own_tanh.defvjp(lambda x: (_own_tanh(x), x), _tanh_backward)
