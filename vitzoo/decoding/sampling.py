"""From the logits of a next token to the token, by drawing; and texts continued so, token by token, with a cache.

All are pure functions, compiled with the step. A row's draws depend on the seed, its prompt, how many equal prompts
stand before it and the place of the token, so a text comes out the same in whatever batch it stands. Rows of other
lengths are filled up at the end; what stands beyond a row's last token is overwritten before anything looks at it.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.decoding.start import WithEncoder, Writer, is_end, next_logits, permitted, start
from vitzoo.nn.stack import KVCache
from vitzoo.schema import setting

NEVER = jnp.finfo(jnp.float32).min
SMALLEST = float(jnp.finfo(jnp.float32).tiny)
"""Below this float32 has subnormal numbers only, which devices take for 0."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a next token is drawn: the repetition penalty first, then temperature, top-k and top-p."""

    temperature: float | None = setting(
        None,
        "below 1 sharper, above 1 flatter; 0: always the most probable; none: 1, but 0 of an encoder-decoder without "
        "top_k and top_p, since an answer is wanted",
        minimum=0.0,
        subnormal=True,
    )
    top_k: int = setting(0, "only the k most probable; 0: all", minimum=0)
    top_p: float = setting(
        1.0, "only the most probable that together have this probability", above=0.0, maximum=1.0, subnormal=True
    )
    repetition_penalty: float = setting(
        1.0, "divides the odds of tokens that are there already", above=0.0, subnormal=True
    )

    def of_answers(self) -> "Sampling":
        """What is meant for an encoder-decoder: the most probable, unless draws are asked for."""
        if self.temperature is None and self.top_k == 0 and self.top_p == 1:
            return dataclasses.replace(self, temperature=0.0)
        return self


def prompt_keys(seed: jax.Array | int, prompts: jax.Array, lengths: jax.Array) -> jax.Array:
    """A random key for each prompt, [batch]: a function of the seed, the prompt, and how many equal ones stand before
    it, so that a prompt is continued alike in whatever batch it stands, and one that stands there twice in two ways.

    Args:
        seed: of the draws.
        prompts: int32 [batch, tokens], filled up at the end with anything.
        lengths: int32 [batch], tokens of each.
    """
    places = jnp.arange(prompts.shape[1], dtype=jnp.uint32)
    digests = []
    for salt in (0x9E3779B9, 0x7F4A7C15):  # two of 32 bits each
        marks = mixed(mixed(places + jnp.uint32(salt)) ^ prompts.astype(jnp.uint32))
        digests.append(jnp.where(places < lengths[:, None], marks, 0).sum(1, dtype=jnp.uint32))
    one, other = digests
    equal = (one[:, None] == one) & (other[:, None] == other)
    before = jnp.tril(equal, -1).sum(1, dtype=jnp.uint32)

    def fold(keys: jax.Array, numbers: jax.Array) -> tuple[jax.Array, None]:
        return jax.vmap(jax.random.fold_in)(keys, numbers), None

    keys = jnp.broadcast_to(jax.random.key(seed), before.shape)
    return jax.lax.scan(fold, keys, jnp.stack([one, other, before]))[0]


def mixed(numbers: jax.Array) -> jax.Array:
    """Numbers whose every bit depends on every bit of those given, uint32 to uint32, one to one (MurmurHash3's end)."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        numbers = (numbers ^ (numbers >> shift)) * jnp.uint32(factor)
    return numbers ^ (numbers >> 16)


def draw(logits: jax.Array, seen: jax.Array, keys: jax.Array, how: Sampling) -> jax.Array:
    """A token for each row, int32 [batch].

    Args:
        logits: float32 [batch, vocabulary]; `NEVER`, or less, of those that can't be drawn.
        seen: bool [batch, vocabulary], the tokens of each row's text so far.
        keys: random keys [batch], one for each row.
        how: settings; they are part of the compiled program.
    """
    possible = logits > NEVER
    if how.repetition_penalty != 1.0:
        logits = jnp.where(seen & possible, penalised(logits, how.repetition_penalty), logits)
    temperature = 1.0 if how.temperature is None else how.temperature
    if temperature < SMALLEST or how.top_k == 1:
        return logits.argmax(-1).astype(jnp.int32)
    # from the largest down, so that none becomes infinite and the most probable stays where it is
    apart = jnp.maximum((logits - logits.max(-1, keepdims=True)) / temperature, NEVER)
    logits = nucleus(best(jnp.where(possible, apart, NEVER), how.top_k), how.top_p)
    return jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)


def penalised(logits: jax.Array, penalty: float) -> jax.Array:
    """Logits made smaller (Keskar et al. 2019, https://arxiv.org/abs/1909.05858; negative ones are multiplied)."""
    penalty = min(max(penalty, SMALLEST), float(-NEVER))
    return jnp.clip(jnp.where(logits > 0, logits / penalty, logits * penalty), NEVER, -NEVER)


def best(logits: jax.Array, k: int) -> jax.Array:
    """Only the k largest of each row (all that equal the k-th); 0, or more than there are, is all."""
    if not 0 < k < logits.shape[-1]:
        return logits
    least = jax.lax.top_k(logits, k)[0][..., -1:]
    return jnp.where(logits < least, NEVER, logits)


def nucleus(logits: jax.Array, p: float) -> jax.Array:
    """Only the fewest most probable whose probabilities reach p (https://arxiv.org/abs/1904.09751)."""
    if np.float32(p) >= 1:
        return logits
    order = jnp.argsort(-logits, axis=-1)
    chances = jnp.take_along_axis(jax.nn.softmax(logits), order, -1)
    before = jnp.cumsum(chances, -1) - chances
    first = jnp.arange(logits.shape[-1]) == 0  # which always stays, for a p that float32 takes for 0 too
    kept = jnp.zeros_like(logits, bool).at[jnp.arange(len(logits))[:, None], order].set((before < p) | first)
    return jnp.where(kept, logits, NEVER)


class SampleState(NamedTuple):
    """Texts that are being drawn."""

    tokens: jax.Array  # int32 [batch, room]: the prompts and what is added; of an encoder-decoder, the targets
    lengths: jax.Array  # int32 [batch], how many of them there are
    done: jax.Array  # bool [batch]
    logits: jax.Array  # float32 [batch, vocabulary], of the next token
    seen: jax.Array  # bool [batch, vocabulary], tokens that are there already
    keys: jax.Array  # random keys [batch], each row's own, for its draws
    cache: KVCache
    source_segments: jax.Array | None  # of an encoder-decoder's sources


def begin_texts(model: Writer, prompts: jax.Array, lengths: jax.Array, seed: jax.Array | int, room: int) -> SampleState:
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
    if not isinstance(model, WithEncoder):
        tokens = tokens.at[:, : prompts.shape[1]].set(prompts)
        rows = jnp.arange(len(prompts))[:, None]
        seen = seen.at[rows, prompts].max(jnp.arange(prompts.shape[1]) < lengths[:, None])
    else:
        tokens = tokens.at[:, 0].set(model.config.start_id)
    done = jnp.zeros(len(prompts), bool)
    return SampleState(
        tokens, started.lengths, done, started.logits, seen, keys, started.cache, started.source_segments
    )


def continue_texts(
    model: Writer,
    texts: SampleState,
    steps: jax.Array | int,
    how: Sampling,
    ends: tuple[int, ...] = (),
    allowed: jax.Array | None = None,
) -> SampleState:
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

    def go_on(carry: tuple[jax.Array, SampleState]) -> jax.Array:
        return (carry[0] < steps) & ~carry[1].done.all()

    def add(carry: tuple[jax.Array, SampleState]) -> tuple[jax.Array, SampleState]:
        count, now = carry
        ids = draw(permitted(now.logits, allowed), now.seen, jax.vmap(jax.random.fold_in)(now.keys, now.lengths), how)
        place = jnp.minimum(now.lengths, room - 1)
        tokens = now.tokens.at[rows, place].set(jnp.where(now.done, now.tokens[rows, place], ids))
        lengths = now.lengths + ~now.done
        logits, cache = next_logits(model, tokens[rows, place], place, now.cache, now.source_segments)
        seen = now.seen.at[rows, ids].max(~now.done)
        done = now.done | is_end(ids, ends) | (lengths >= room)
        return count + 1, SampleState(tokens, lengths, done, logits, seen, now.keys, cache, now.source_segments)

    return jax.lax.while_loop(go_on, add, (jnp.zeros((), jnp.int32), texts))[1]
