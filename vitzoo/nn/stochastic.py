"""Random removal in training, each draw from a key given for it. Without a key nothing is removed."""

from typing import TypeVar

import jax
import jax.numpy as jnp

Tokens = TypeVar("Tokens")
"""Arrays that are laid out alike, in whatever they stand."""


def fold(key: jax.Array | None, index: int | jax.Array) -> jax.Array | None:
    """The key for one of several draws; None stays None."""
    return None if key is None else jax.random.fold_in(key, index)


def dropout(x: jax.Array, rate: float | jax.Array, key: jax.Array | None, shape: tuple[int, ...] | None = None):
    """Zeroes entries with probability `rate` and divides the others by `1 - rate` (Srivastava et al. 2014).

    Args:
        shape: of the draw, broadcast to x; one draw for each entry by default.
    """
    if key is None or (isinstance(rate, float | int) and rate == 0):
        return x
    keep = jax.random.bernoulli(key, 1 - rate, shape or x.shape)
    return jnp.where(keep, x / jnp.asarray(1 - rate, x.dtype), jnp.zeros((), x.dtype))


def drop_path(x: jax.Array, rate: float | jax.Array, key: jax.Array | None) -> jax.Array:
    """Stochastic depth (Huang et al. 2016, https://arxiv.org/abs/1603.09382): drops a branch for whole rows of a batch.

    Args:
        x: the branch, [batch, ...].
        rate: probability of dropping; an array where layers differ.
    """
    return dropout(x, rate, key, (x.shape[0],) + (1,) * (x.ndim - 1))


def kept_patches(rate: float, keys: jax.Array, patches: int) -> jax.Array:
    """Patch dropout (Liu et al. 2022, https://arxiv.org/abs/2208.07220): which patches of each row stay.

    Args:
        rate: share of the patches that go.
        keys: [batch], each row's own.
        patches: number of them.

    Returns:
        [batch, kept] ascending indices, another random subset for each row; `round(patches * (1 - rate))` are kept
        and never fewer than one.
    """
    kept = max(1, round(patches * (1 - rate)))
    # an objective may draw from the same keys, so theirs is made of them
    draws = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, 0), (patches,)))(keys)
    order = jnp.argsort(draws, axis=1)
    return jnp.sort(order[:, :kept], axis=1)


def kept_tokens(tree: Tokens, patches: jax.Array, prefix: int) -> Tokens:
    """The prefix tokens and the patches that stay.

    Args:
        tree: arrays [1 or batch, prefix + patches, ...].
        patches: from `kept_patches`.

    Returns:
        Tokens [batch, prefix + kept, ...].
    """

    def keep(x: jax.Array) -> jax.Array:
        x = jnp.broadcast_to(x, (len(patches), *x.shape[1:]))
        index = patches.reshape(*patches.shape, *(1,) * (x.ndim - 2))
        return jnp.concatenate([x[:, :prefix], jnp.take_along_axis(x[:, prefix:], index, axis=1)], axis=1)

    return jax.tree.map(keep, tree)
