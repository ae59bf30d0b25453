"""What a model has seen before it writes: prompts, or sources and the token that a target begins behind."""

from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp

from vitzoo.nn.stack import KVCache
from vitzoo.schema import Settings

Context = TypeVar("Context")


class WithStart(Settings, Protocol):
    """Settings of a model whose target begins with a start token."""

    @property
    def start_id(self) -> int: ...


class Decoder(Protocol):
    """A model that continues a text. One with `config.prefix_lm` takes `prefix` too; see `models.gpt.GPT.extend`."""

    @property
    def config(self) -> Settings: ...

    def begin(self, batch: int, length: int, /) -> KVCache:
        """An empty cache for texts of up to `length` tokens."""
        ...

    def extend(
        self, tokens: jax.Array, positions: jax.Array, cache: KVCache, /, *, keep: jax.Array | None = None
    ) -> tuple[jax.Array, KVCache]:
        """Logits of what follows the next tokens, and the cache with them."""
        ...


@runtime_checkable
class WithEncoder(Protocol[Context]):
    """A model that reads a source before it writes a target."""

    @property
    def config(self) -> WithStart: ...

    def encode(self, source: jax.Array, source_segments: jax.Array | None = None) -> Context:
        """What `begin` takes of sources, int32 [batch, tokens]."""
        ...

    def begin(self, context: Context, length: int) -> KVCache:
        """A cache for targets of up to `length` tokens."""
        ...


class EncoderDecoder(WithEncoder[Context], Protocol[Context]):
    """A model that answers a source."""

    def extend(
        self,
        tokens: jax.Array,
        positions: jax.Array,
        cache: KVCache,
        source_segments: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache]:
        """Logits of what follows the next tokens, and the cache with them."""
        ...


Writer = Decoder | EncoderDecoder
"""A model that writes."""


class Started(NamedTuple):
    """Texts whose next token can be chosen. An encoder-decoder's target begins with its start token."""

    lengths: jax.Array  # int32 [batch], tokens so far: the next one's place
    logits: jax.Array  # float32 [batch, vocabulary], of the next token
    cache: KVCache
    source_segments: jax.Array | None  # int32 [batch, source tokens], 0 is padding


def start(model: Writer, tokens: jax.Array, lengths: jax.Array, room: int) -> Started:
    """Reads prompts with a decoder, or sources with an encoder-decoder.

    Args:
        model: has `begin` and `extend`; an encoder-decoder has `encode` besides, and `config.start_id`. One with
            `config.prefix_lm` reads a prompt in both directions.
        tokens: int32 [batch, tokens], filled up at the end with anything.
        lengths: int32 [batch], tokens of each; at least one.
        room: tokens of a text with what is added; of an encoder-decoder, of a target with its start token.
    """
    places = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    if not isinstance(model, WithEncoder):
        cache = model.begin(len(tokens), room)
        both_ways = {"prefix": lengths} if getattr(model.config, "prefix_lm", None) else {}
        logits, cache = model.extend(tokens, places, cache, keep=lengths - 1, **both_ways)
        return Started(lengths.astype(jnp.int32), logits[:, 0], cache, None)
    segments = (places < lengths[:, None]).astype(jnp.int32)
    cache = model.begin(model.encode(tokens, segments), room)
    nothing = jnp.zeros(len(tokens), jnp.int32)
    logits, cache = next_logits(model, nothing + model.config.start_id, nothing, cache, segments)
    return Started(nothing + 1, logits, cache, segments)


def next_logits(
    model: Writer, ids: jax.Array, places: jax.Array, cache: KVCache, source_segments: jax.Array | None
) -> tuple[jax.Array, KVCache]:
    """Logits float32 [rows, vocabulary] of what follows one more token of each row, and the cache with it.

    Args:
        model: as in `start`.
        ids, places: int32 [rows], the tokens and where they stand.
        cache: of what stands before them.
        source_segments: int32 [rows, source tokens], of an encoder-decoder.
    """
    more = {} if source_segments is None else {"source_segments": source_segments}
    logits, cache = model.extend(ids[:, None], places[:, None], cache, **more)
    return logits[:, 0], cache


def permitted(logits: jax.Array, allowed: jax.Array | None) -> jax.Array:
    """Logits that never choose other ids than those allowed, bool [vocabulary]; None is all."""
    return logits if allowed is None else jnp.where(allowed, logits, jnp.finfo(logits.dtype).min)


def is_end(ids: jax.Array, ends: tuple[int, ...]) -> jax.Array:
    """Which ids end a text, bool of their shape."""
    return jnp.isin(ids, jnp.array(ends, ids.dtype))
