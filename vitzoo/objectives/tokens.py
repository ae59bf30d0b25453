"""The loss of saying tokens, shared by all objectives of text: sums and counts over the places that are scored."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

Pairs = dict[str, tuple[jax.Array, jax.Array]]


def token_losses(logits: jax.Array, targets: jax.Array, label_smoothing: float = 0.0) -> jax.Array:
    """Cross-entropy of each place, float32 [batch, tokens].

    Args:
        logits: float32 [batch, tokens, vocabulary].
        targets: int [batch, tokens].
        label_smoothing: share of the target spread evenly over the vocabulary
            (https://arxiv.org/abs/1512.00567, section 7).
    """
    log_probability = jax.nn.log_softmax(logits.astype(jnp.float32))
    own = -jnp.take_along_axis(log_probability, targets[..., None], -1)[..., 0]
    if not label_smoothing:
        return own
    return (1 - label_smoothing) * own - label_smoothing * log_probability.mean(-1)


def z_losses(logits: jax.Array) -> jax.Array:
    """The squared logarithm of the softmax's normaliser at each place, which keeps logits near zero
    (https://arxiv.org/abs/2204.02311, section 5): float32 [batch, tokens].
    """
    return jnp.square(jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1))


def scored(batch: Mapping[str, jax.Array]) -> jax.Array:
    """How much each place counts, float32 [batch, tokens]; nothing in rows that only fill up a batch."""
    return batch["weights"].astype(jnp.float32) * (batch["weight"] > 0)[:, None]


def summed(values: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum; a place that isn't scored can't bring a NaN into it."""
    return jnp.where(weights > 0, weights * values, 0).sum()


def accuracy(logits: jax.Array, targets: jax.Array, weights: jax.Array) -> Pairs:
    """How many of the scored tokens are the most probable."""
    return {"accuracy": (summed(logits.argmax(-1) == targets, weights), weights.sum())}
