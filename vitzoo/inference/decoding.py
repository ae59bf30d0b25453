"""Texts continued token by token with a cache: compiled once for each shape, a chunk of tokens a call.

A row's draws depend on the seed, the row's own number and the place of the token, so a text comes out the same in
whatever batch it stands. Rows of other lengths are filled up at the end; what stands beyond a row's last token is
overwritten before anything looks at it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.inference.sampling import Sampling, draw
from vitzoo.nn import state
from vitzoo.nn.stack import Cache

Extend = Callable[..., tuple[jax.Array, Cache]]


class Texts(NamedTuple):
    """Texts under way."""

    tokens: jax.Array  # int32 [batch, length]
    lengths: jax.Array  # int32 [batch], how many of them there are
    done: jax.Array  # bool [batch]
    logits: jax.Array  # float32 [batch, vocabulary], of the next token
    seen: jax.Array  # bool [batch, vocabulary], tokens that are there already
    numbers: jax.Array  # int32 [batch], each row's own number, for its draws
    cache: Cache
    source_segments: jax.Array | None  # of an encoder-decoder's sources


def begin_texts(
    graph: Any, params: Any, prompts: jax.Array, lengths: jax.Array, numbers: jax.Array, room: int
) -> Texts:
    """A decoder's texts after their prompts.

    Args:
        graph, params: the model.
        prompts: int32 [batch, tokens], filled up at the end.
        lengths: int32 [batch], tokens of each, at least one.
        numbers: int32 [batch].
        room: tokens of a text with what is added.
    """
    model, (batch, width) = state.merge(graph, params), prompts.shape
    at = jnp.broadcast_to(jnp.arange(width), prompts.shape)
    logits, cache = model.extend(prompts, at, model.begin(batch, room), keep=lengths - 1)
    tokens = jnp.zeros((batch, room), jnp.int32).at[:, :width].set(prompts)
    return _texts(tokens, lengths, logits[:, 0], at < lengths[:, None], prompts, numbers, cache, None)


def begin_targets(
    graph: Any, params: Any, sources: jax.Array, segments: jax.Array, numbers: jax.Array, room: int, start: int
) -> Texts:
    """An encoder-decoder's targets, which hold the start token.

    Args:
        graph, params: the model.
        sources, segments: int32 [batch, source tokens]; segment 0 fills up.
        numbers: int32 [batch].
        room: tokens of a target, the start token included.
        start: its id.
    """
    model = state.merge(graph, params)
    tokens = jnp.zeros((len(sources), room), jnp.int32).at[:, 0].set(start)
    cache, first = model.begin(model.encode(sources, segments), room), jnp.zeros((len(sources), 1), jnp.int32)
    logits, cache = model.extend(tokens[:, :1], first, cache, source_segments=segments)
    none = jnp.zeros((len(sources), 1), bool)
    return _texts(tokens, first[:, 0] + 1, logits[:, 0], none, tokens[:, :1], numbers, cache, segments)


def _texts(tokens, lengths, logits, real, ids, numbers, cache, segments) -> Texts:
    rows = jnp.arange(len(tokens))[:, None]
    seen = jnp.zeros(logits.shape, jnp.int32).at[rows, ids].max(real.astype(jnp.int32)) > 0
    return Texts(tokens, lengths, jnp.zeros(len(tokens), bool), logits, seen, numbers, cache, segments)


def continue_texts(
    graph: Any, params: Any, texts: Texts, seed: jax.Array, steps: jax.Array, how: Sampling, ends: tuple[int, ...]
) -> Texts:
    """Up to `steps` more tokens for each text, until all are done.

    Args:
        graph, params: the model.
        texts: under way.
        seed: of the draws.
        steps: how many.
        how: they are drawn.
        ends: ids that end a text; they become its last token.
    """
    model, room = state.merge(graph, params), texts.tokens.shape[1]
    rows = jnp.arange(len(texts.tokens))
    more = {} if texts.source_segments is None else {"source_segments": texts.source_segments}
    key = jax.random.key(seed)

    def one(number: jax.Array, place: jax.Array) -> jax.Array:
        return jax.random.fold_in(jax.random.fold_in(key, number), place)

    def go_on(carry: tuple[jax.Array, Texts]) -> jax.Array:
        return (carry[0] < steps) & ~carry[1].done.all()

    def add(carry: tuple[jax.Array, Texts]) -> tuple[jax.Array, Texts]:
        count, now = carry
        ids = draw(now.logits, now.seen, jax.vmap(one)(now.numbers, now.lengths), how)
        place = jnp.minimum(now.lengths, room - 1)
        tokens = now.tokens.at[rows, place].set(jnp.where(now.done, now.tokens[rows, place], ids))
        lengths = now.lengths + ~now.done
        ended = functools.reduce(jnp.logical_or, [ids == end for end in ends], jnp.zeros_like(now.done))
        logits, cache = model.extend(tokens[rows, place][:, None], place[:, None], now.cache, **more)
        seen = now.seen.at[rows, ids].max(~now.done)
        done = now.done | ended | (lengths >= room)
        return count + 1, Texts(tokens, lengths, done, logits[:, 0], seen, now.numbers, cache, now.source_segments)

    return jax.lax.while_loop(go_on, add, (jnp.zeros((), jnp.int32), texts))[1]


def filled(texts: Sequence[np.ndarray], multiple: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids in one array [batch, tokens], a multiple of `multiple` wide so that few shapes are compiled; their lengths.

    Args:
        texts: int32 ids of each.
        multiple: of the width.
        most: no wider than this.
    """
    lengths = np.array([len(ids) for ids in texts], np.int32)
    width = min(-(-max(int(lengths.max()), 1) // multiple) * multiple, most)
    rows = np.zeros((len(texts), width), np.int32)
    for row, ids in zip(rows, texts, strict=True):
        row[: len(ids)] = ids
    return rows, lengths
