"""Texts continued token by token with a cache, each token drawn from the model's probabilities.

A row's draws depend on the seed, its prompt, how many equal prompts stand before it and the place of the token, so a
text comes out the same in whatever batch it stands. Rows of other lengths are filled up at the end; what stands beyond
a row's last token is overwritten before anything looks at it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vitzoo.decoding.sampling import Sampling, draw, prompt_keys
from vitzoo.decoding.start import is_end, next_logits, permitted, start
from vitzoo.nn.stack import KVCache


class Texts(NamedTuple):
    """Texts under way."""

    tokens: jax.Array  # int32 [batch, room]: the prompts and what is added; of an encoder-decoder, the targets
    lengths: jax.Array  # int32 [batch], how many of them there are
    done: jax.Array  # bool [batch]
    logits: jax.Array  # float32 [batch, vocabulary], of the next token
    seen: jax.Array  # bool [batch, vocabulary], tokens that are there already
    keys: jax.Array  # random keys [batch], each row's own, for its draws
    cache: KVCache
    source_segments: jax.Array | None  # of an encoder-decoder's sources


def begin_texts(model: Any, prompts: jax.Array, lengths: jax.Array, seed: jax.Array | int, room: int) -> Texts:
    """A decoder's texts after their prompts, or an encoder-decoder's targets, which hold the start token.

    Args:
        model: as in `decoding.start`.
        prompts: int32 [batch, tokens], or sources, filled up at the end.
        lengths: int32 [batch], tokens of each, at least one.
        seed: of the draws.
        room: tokens of a text with what is added, or of a target with its start token.
    """
    started, keys = start(model, prompts, lengths, room), prompt_keys(seed, prompts, lengths)
    tokens = jnp.zeros((len(prompts), room), jnp.int32)
    seen = jnp.zeros(started.logits.shape, bool)
    if started.source_segments is None:
        tokens = tokens.at[:, : prompts.shape[1]].set(prompts)
        rows = jnp.arange(len(prompts))[:, None]
        seen = seen.at[rows, prompts].max(jnp.arange(prompts.shape[1]) < lengths[:, None])
    else:
        tokens = tokens.at[:, 0].set(model.config.start_id)
    done = jnp.zeros(len(prompts), bool)
    return Texts(tokens, started.lengths, done, started.logits, seen, keys, started.cache, started.source_segments)


def continue_texts(
    model: Any,
    texts: Texts,
    steps: jax.Array | int,
    how: Sampling,
    ends: tuple[int, ...] = (),
    allowed: jax.Array | None = None,
) -> Texts:
    """Up to `steps` more tokens for each text, until all are done.

    Args:
        model: as in `decoding.start`.
        texts: under way.
        steps: how many.
        how: they are drawn.
        ends: ids that end a text; they become its last token.
        allowed: bool [vocabulary], ids that may be written; None is all.
    """
    rows, room = jnp.arange(len(texts.tokens)), texts.tokens.shape[1]

    def go_on(carry: tuple[jax.Array, Texts]) -> jax.Array:
        return (carry[0] < steps) & ~carry[1].done.all()

    def add(carry: tuple[jax.Array, Texts]) -> tuple[jax.Array, Texts]:
        count, now = carry
        ids = draw(permitted(now.logits, allowed), now.seen, jax.vmap(jax.random.fold_in)(now.keys, now.lengths), how)
        place = jnp.minimum(now.lengths, room - 1)
        tokens = now.tokens.at[rows, place].set(jnp.where(now.done, now.tokens[rows, place], ids))
        lengths = now.lengths + ~now.done
        logits, cache = next_logits(model, tokens[rows, place], place, now.cache, now.source_segments)
        seen = now.seen.at[rows, ids].max(~now.done)
        done = now.done | is_end(ids, ends) | (lengths >= room)
        return count + 1, Texts(tokens, lengths, done, logits, seen, now.keys, cache, now.source_segments)

    return jax.lax.while_loop(go_on, add, (jnp.zeros((), jnp.int32), texts))[1]
