"""From tokens to one vector."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import xavier_uniform

from vitzoo.nn.attention import Attention
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import LayerNorm

RULES = ((r"pool/probe", (None, None, "embed")),)
"""Logical axes of the parameters here."""


def mean(tokens: jax.Array) -> jax.Array:
    """Global average: [batch, tokens, width] to float32 [batch, width]."""
    return tokens.astype(jnp.float32).mean(axis=1)


class AttentionPooling(nnx.Module):
    """MAP: a learned probe attends to the tokens, then an MLP (https://arxiv.org/abs/2106.04560, as in big_vision)."""

    def __init__(
        self,
        width: int,
        mlp_dim: int,
        num_heads: int,
        *,
        activation: str = "gelu_tanh",
        norm_epsilon: float = 1e-6,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        self.probe = nnx.Param(xavier_uniform()(rngs.params(), (1, 1, width)))
        self.attention = Attention(width, num_heads, rngs=rngs, execution=execution)
        self.norm = LayerNorm(width, epsilon=norm_epsilon, execution=execution)
        self.mlp = MLP(width, mlp_dim, activation=activation, rngs=rngs, execution=execution)

    def __call__(self, tokens: jax.Array, *, weights: bool = False) -> tuple[jax.Array, jax.Array | None]:
        """[batch, tokens, width] to [batch, width], and the probe's weights [batch, heads, 1, tokens] if asked for."""
        probe = jnp.broadcast_to(self.probe[...].astype(tokens.dtype), (tokens.shape[0], 1, tokens.shape[2]))
        attended = self.attention(probe, self.attention.keys_values(tokens), weights=weights)
        x = attended.tokens + self.mlp(self.norm(attended.tokens))
        return x[:, 0], attended.weights
