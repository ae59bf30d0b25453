"""What T5 and the Transformer of 2017 share: a source is encoded, a target decoded while looking at it.

A model of this kind makes `encoder` and `decoder` (`nn.stack.Stack`s) and says how ids become tokens, what joins the
logits of attention, and how tokens become logits; everything else is here.
"""

import abc
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
from flax import nnx

from vitzoo.decoding.generate import Written, generate
from vitzoo.models import text
from vitzoo.nn import masks
from vitzoo.nn.capture import Captured, Capturing, Outputs, check, returned
from vitzoo.nn.stack import KVCache, Stack
from vitzoo.nn.stochastic import fold

ENCODER = "encoder_"
"""Before the names of what is captured in the encoder."""


class Context(NamedTuple):
    """An encoded source."""

    tokens: jax.Array  # [batch, source tokens, width]
    segments: jax.Array | None  # int [batch, source tokens], 0 is padding


class EncoderDecoder(Capturing, nnx.Module):
    """Source ids [batch, source tokens] and target ids [batch, tokens] to logits [batch, tokens, vocabulary]."""

    INPUTS: ClassVar[Mapping[str, str]] = {
        "source": "source",
        "source_segments": "segments",
        "source_positions": "positions",
        "tokens": "text",
        "tokens_segments": "segments",
        "tokens_positions": "positions",
    }

    config: Any
    encoder: Stack
    decoder: Stack

    @property
    def captures(self) -> tuple[str, ...]:
        """The names that `capture` knows."""
        encoder, decoder = (("embedded", *stack.captures, "tokens") for stack in (self.encoder, self.decoder))
        return (*(ENCODER + name for name in encoder), *decoder, "logits")

    @abc.abstractmethod
    def embed(self, ids: jax.Array, positions: jax.Array, key: jax.Array | None) -> jax.Array:
        """Ids and their positions to [batch, tokens, width]; dropout where there is a key."""

    @abc.abstractmethod
    def bias(self, queries: jax.Array, keys: jax.Array, *, decoder: bool) -> jax.Array | None:
        """What joins the logits of self-attention, [1 or batch, heads, queries, keys], from places in the row."""

    @abc.abstractmethod
    def finish(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
        """What happens to a stack's tokens after its last norm."""

    @abc.abstractmethod
    def logits(self, x: jax.Array) -> jax.Array:
        """[batch, tokens, width] to float32 [batch, tokens, vocabulary]."""

    def __call__(
        self,
        source: jax.Array,
        tokens: jax.Array,
        *,
        source_segments: jax.Array | None = None,
        source_positions: jax.Array | None = None,
        tokens_segments: jax.Array | None = None,
        tokens_positions: jax.Array | None = None,
        capture: Collection[str] = (),
        train: bool = False,
        key: jax.Array | None = None,
    ) -> Outputs:
        """Logits of the token after each of the target's, float32 [batch, tokens, vocabulary]; with `capture`,
        `(logits, captured)`.

        Args:
            source: int [batch, source tokens].
            tokens: int [batch, tokens]: the target behind a start token.
            source_segments, tokens_segments: int, of the same shapes: which pair of those packed into a row a token
                belongs to; 0 is padding.
            source_positions, tokens_positions: int, of the same shapes: places in a text; 0, 1, 2 ... by default.
            capture: what else to give, by name. Of the encoder: `encoder_embedded`, `encoder_blocks`,
                `encoder_attention`, `encoder_tokens` (after the last norm); of the decoder: `embedded`, `blocks`,
                `attention`, `cross_attention`, `tokens`, `logits`. Tokens are [batch, tokens, width], those of blocks
                [depth, ...], weights [depth, batch, heads, queries, keys].
            train: whether dropout acts.
            key: the source of its randomness.

        Raises:
            UserError: ids of another type or shape, a name that `capture` doesn't know, or no key where training needs
                one.
        """
        capture, key = check(capture, self.captures), self.config.key(train, key)
        of_encoder = {name.removeprefix(ENCODER) for name in capture if name.startswith(ENCODER)}
        context, encoded = self._encode(source, source_segments, source_positions, fold(key, 0), of_encoder)
        decoded = self._decode(context, tokens, tokens_segments, tokens_positions, fold(key, 1), capture)
        logits = self.logits(decoded["tokens"])
        seen = {ENCODER + name: value for name, value in encoded.items()} | decoded | {"logits": logits}
        return returned(logits, seen, capture)

    def encode(self, source: jax.Array, source_segments: jax.Array | None = None) -> Context:
        """Encodes sources once for all steps of decoding."""
        return self._encode(source, source_segments, None, None)[0]

    def begin(self, context: Context, length: int) -> KVCache:
        """A cache for targets of up to `length` tokens, which holds what the decoder looks at in the sources."""
        return self.decoder.empty_cache(len(context.tokens), length, context.tokens)

    def extend(
        self, tokens: jax.Array, positions: jax.Array, cache: KVCache, source_segments: jax.Array | None = None
    ) -> tuple[jax.Array, KVCache]:
        """The next tokens of targets whose earlier ones are in the cache.

        Args:
            tokens: int [batch, new tokens].
            positions: int [batch, new tokens], their places. What stands in the cache beyond a token's own place is
                not seen.
            cache: from `begin` or `extend`.
            source_segments: of the sources, 0 is padding.

        Returns:
            Logits float32 [batch, new tokens, vocabulary], and the cache with the new tokens in it.
        """
        length = cache.past.key.shape[2]
        run = self.decoder(
            self.embed(tokens, positions, None),
            cache=cache,
            at=positions,
            bias=self.bias(positions, jax.numpy.arange(length)[None], decoder=True),
            mask=masks.up_to(positions, length),
            context_mask=None if source_segments is None else (source_segments > 0)[:, None, None],
        )
        assert run.cache is not None
        return self.logits(self.finish(run.tokens, None)), run.cache

    def generate(self, source: jax.Array, lengths: jax.Array | None = None, **how: Any) -> Written:
        """Answers sources, from ids to ids: see `decoding.generate`.

        Args:
            source: int [batch, source tokens], each with its end token, filled up at the end.
            lengths: int [batch], tokens of each; all by default.
            how: `max_new_tokens=20`, `end_id=1`, `temperature=0.8` ..., or `num_beams=4`.
        """
        return generate(self, source, lengths, **how)

    def _encode(self, ids, segments, positions, key, capture=frozenset()) -> tuple[Context, Captured]:
        text.check_ids("source", ids)
        rows, positions = text.places(ids, None), text.places(ids, positions)
        embedded = self.embed(ids, positions, fold(key, 0))
        run = self.encoder(
            embedded,
            fold(key, 1),
            bias=self.bias(rows, rows, decoder=False),
            mask=text.self_mask(ids, segments, causal=False),
            capture=capture.intersection(self.encoder.captures),
        )
        tokens = self.finish(run.tokens, fold(key, 2))
        return Context(tokens, segments), {"embedded": embedded, **run.captured, "tokens": tokens}

    def _decode(self, context: Context, ids, segments, positions, key, capture=frozenset()) -> Captured:
        text.check_ids("tokens", ids)
        rows, positions = text.places(ids, None), text.places(ids, positions)
        embedded = self.embed(ids, positions, fold(key, 0))
        run = self.decoder(
            embedded,
            fold(key, 1),
            bias=self.bias(rows, rows, decoder=True),
            mask=text.self_mask(ids, segments, causal=True),
            context=context.tokens,
            context_mask=_context_mask(segments, context.segments),
            capture=capture.intersection(self.decoder.captures),
        )
        return {"embedded": embedded, **run.captured, "tokens": self.finish(run.tokens, fold(key, 2))}


def _context_mask(segments: jax.Array | None, source_segments: jax.Array | None) -> jax.Array | None:
    if source_segments is None:
        return None
    if segments is None:  # one pair a row
        return (source_segments > 0)[:, None, None]
    return masks.same_segment(segments, source_segments)
