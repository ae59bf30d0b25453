"""Who may look at whom, bool [1 or batch, 1, queries, keys]; true is allowed.

Segments number the texts of a row: 0 is padding, and tokens of different texts don't see each other. Padding sees
padding, so that no softmax is empty.
"""

import jax
import jax.numpy as jnp


def causal(tokens: int) -> jax.Array:
    """Each token sees itself and those before it: [1, 1, tokens, tokens]."""
    return jnp.tril(jnp.ones((tokens, tokens), bool))[None, None]


def same_segment(queries: jax.Array, keys: jax.Array | None = None) -> jax.Array:
    """Tokens of one text see each other.

    Args:
        queries: [batch, queries], the segment of each.
        keys: [batch, keys], the queries' by default.
    """
    keys = queries if keys is None else keys
    return (queries[:, :, None] == keys[:, None, :])[:, None]


def up_to(positions: jax.Array, length: int) -> jax.Array:
    """Each query sees the places of a cache up to its own: [batch, 1, queries, length].

    Args:
        positions: [batch, queries], each query's place.
        length: places of the cache.
    """
    return (jnp.arange(length) <= positions[:, :, None])[:, None]


def prefix(inside: jax.Array) -> jax.Array:
    """Every token sees the prefix (https://arxiv.org/abs/1910.10683, section 3.2.1): [batch, 1, 1, tokens].

    Args:
        inside: bool [batch, tokens], which tokens are the prefix's.
    """
    return inside[:, None, None, :]
