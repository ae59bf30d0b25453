"""The part of a block that transforms each token by itself."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.nn.initializers import Initializer

from vitzoo.nn.constrain import constrain
from vitzoo.nn.dense import XAVIER, Dense
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.stochastic import dropout, fold

RULES = (
    (r".*/(up|gate)/kernel", ("embed", "mlp")),
    (r".*/(up|gate)/bias", ("mlp",)),
    (r".*/down/kernel", ("mlp", "embed")),
    (r".*/down/bias", (None,)),
)
"""Logical axes of the parameters here, for one layer."""

ACTIVATIONS = ("gelu_tanh", "gelu_exact", "gelu_quick", "relu", "silu")


class MLP(nnx.Module):
    """Two linear layers with an activation between: [..., width] to the same.

    Args:
        activation: `gelu_tanh` (Google's ViT, GPT-2), `gelu_exact` (BERT, timm's ViT), `gelu_quick` (OpenAI's CLIP),
            `relu` (2017, T5) or `silu`.
        gated: a third layer's output multiplies the activation's (https://arxiv.org/abs/2002.05202).
        bias: whether the layers have one.
        dropout: rate after the last layer.
        hidden_dropout: rate after the activation.
        kernel_init, out_init: of the first layers' and of the last layer's kernel.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: str = "gelu_tanh",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        kernel_init: Initializer = XAVIER,
        out_init: Initializer = XAVIER,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        self.activation, self.dropout, self.hidden_dropout = activation, dropout, hidden_dropout
        self.execution = execution
        dense = partial(Dense, bias=bias, rngs=rngs, execution=execution)
        self.up = dense(width, hidden, kernel_init=kernel_init)
        self.gate = dense(width, hidden, kernel_init=kernel_init) if gated else None
        self.down = dense(hidden, width, kernel_init=out_init)

    def __call__(self, x: jax.Array, key: jax.Array | None = None) -> jax.Array:
        if self.gate is None:
            x = self._activate(self.up(x))
        else:
            x = self._activate(self.gate(x)) * self.up(x)
        tokens = ("tokens", *(None,) * (x.ndim - 3)) if x.ndim > 2 else ()
        x = constrain(x, ("batch", *tokens, "mlp"))
        x = dropout(x, self.hidden_dropout, fold(key, 0))
        return dropout(self.down(x), self.dropout, fold(key, 1))

    def _activate(self, x: jax.Array) -> jax.Array:
        return activate(x, self.activation, custom_gradient=self.execution.uses_custom_gradient)


def activate(x: jax.Array, name: str, *, custom_gradient: bool = False) -> jax.Array:
    """One of `ACTIVATIONS`; `custom_gradient` as for `gelu`."""
    if name == "relu":
        return jax.nn.relu(x)
    return jax.nn.silu(x) if name == "silu" else gelu(x, name.removeprefix("gelu_"), custom_gradient=custom_gradient)


def gelu(x: jax.Array, form: str, *, custom_gradient: bool = False) -> jax.Array:
    """x times the normal distribution function (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415).

    Args:
        form: `exact`; `tanh` for the approximation at most 4.73e-4 away, near x = +-2.69; `quick` for x times the
            logistic function of 1.702 x, at most 0.0204 away, near x = +-2.27.
        custom_gradient: take the derivatives written here, which keep x alone. They have no forward mode.
    """
    if form == "quick":
        return x * jax.nn.sigmoid(1.702 * x)
    if custom_gradient:
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
