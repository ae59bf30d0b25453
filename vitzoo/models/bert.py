"""BERT: an encoder of text (Devlin et al. 2019, https://arxiv.org/abs/1810.04805).

The small sizes are those of https://arxiv.org/abs/1908.08962.
"""

import dataclasses
from collections.abc import Collection
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import normal

from vitzoo.errors import UserError
from vitzoo.models import text
from vitzoo.models.base import TransferRules
from vitzoo.models.bert_config import PUBLISHED, VARIANTS, BERTConfig
from vitzoo.nn import attention, embeddings, mlp, norms, stack
from vitzoo.nn.attention import Attention
from vitzoo.nn.capture import Captured, Capturing, Outputs, check, returned
from vitzoo.nn.dense import Dense
from vitzoo.nn.embeddings import Embedding
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import MLP, activate
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.stack import Block, Stack
from vitzoo.nn.stochastic import dropout, fold

INIT = normal(0.02)


class BERT(Capturing, nnx.Module):
    """An encoder: ids [batch, tokens] to what its head gives.

    Args:
        config: what it is.
        rngs: for the initial parameters, normal with deviation 0.02.
        execution: how it is computed.

    Raises:
        UserError: fields of the config don't fit together.
    """

    Config = BERTConfig
    VARIANTS = VARIANTS
    INPUTS = {
        "tokens": "text",
        "tokens_types": "types",
        "tokens_segments": "segments",
        "tokens_positions": "positions",
    }
    PUBLISHED = PUBLISHED
    TRANSFER = TransferRules(
        fixed=("width", "depth", "mlp_dim", "num_heads"),
        leaves={
            "head": r"(masked_dense|masked_norm|next_sentence)/.*|masked_bias",
            "has_pooler": r"pooler/.*",
        },
        new_head={
            "head_input": "{text}, new, since it reads {new} in place of {old}",
            "head": "for {new} in place of {old}, new, zero-initialised",
        },
    )
    SHARDING_RULES: ClassVar = (
        (r"(pooler|masked_dense)/kernel", ("embed", None)),
        (r"(head|next_sentence)/kernel", ("embed", "classes")),
        (r"(pooler|masked_dense|next_sentence|head)/bias", (None,)),
        (r"masked_bias", ("vocabulary",)),
        *embeddings.VOCABULARY_RULES,
        *embeddings.PLACE_RULES,
        *(row for part in (norms, attention, mlp, stack) for row in part.RULES),
    )

    def __init__(self, config: BERTConfig, *, rngs: nnx.Rngs, execution: Execution = DEFAULT):
        c = self.config = config
        c.check()
        shared: Any = {"rngs": rngs, "execution": execution}
        exact: Any = {"rngs": rngs, "execution": dataclasses.replace(execution, dtype="float32"), "kernel_init": INIT}
        vocabulary = text.known_vocabulary(c.vocabulary_size)
        norm = partial(LayerNorm, c.width, epsilon=c.norm_epsilon, execution=execution)
        self.execution = execution
        self.embedding = Embedding(vocabulary, c.width, **shared)
        self.position_embedding = Embedding(c.context_length, c.width, **shared)
        self.type_embedding = Embedding(c.sentence_types, c.width, **shared)
        self.embedding_norm = norm()
        self.encoder = Stack(c.depth, partial(_block, c, execution), **shared)
        # the heads; those of classes in float32
        self.pooler = Dense(c.width, c.width, **exact) if c.has_pooler else None
        pretraining = c.head_kind == "pretraining"
        self.masked_dense = Dense(c.width, c.width, kernel_init=INIT, **shared) if pretraining else None
        self.masked_norm = norm() if pretraining else None
        self.masked_bias = nnx.Param(jnp.zeros(vocabulary)) if pretraining else None
        self.next_sentence = Dense(c.width, 2, **exact) if pretraining and c.pooler else None
        outputs = {"classes": c.num_classes, "token_classes": c.num_classes, "number": 1}.get(c.head_kind)
        self.head = Dense(c.width, outputs, **exact) if outputs else None

    @property
    def captures(self) -> tuple[str, ...]:
        """The names that `capture` knows."""
        logits = () if self.config.head_kind == "none" else ("logits",)
        return ("embedded", *self.encoder.captures, "tokens", "pooled", *logits)

    def __call__(
        self,
        tokens: jax.Array,
        *,
        tokens_types: jax.Array | None = None,
        tokens_segments: jax.Array | None = None,
        tokens_positions: jax.Array | None = None,
        capture: Collection[str] = (),
        train: bool = False,
        key: jax.Array | None = None,
    ) -> Outputs:
        """What the head gives, float32: under `pretraining` logits [batch, tokens, vocabulary] of the masked tokens,
        under `classes` [batch, classes], under `number` [batch], under `token_classes` [batch, tokens, classes];
        without a head the tokens [batch, tokens, width]. With `capture`, `(outputs, captured)`.

        Args:
            tokens: int [batch, tokens], the first of each text is [CLS].
            tokens_types: int [batch, tokens], 0 and 1 for the first and second part; zeros by default.
            tokens_segments: int [batch, tokens], 0 is padding.
            tokens_positions: int [batch, tokens]; 0, 1, 2 ... by default.
            capture: what else to give, by name: `embedded` [batch, tokens, width]; `blocks` [depth, batch, tokens,
                width]; `attention` [depth, batch, heads, tokens, tokens]; `tokens`, after the last block; `pooled`
                [batch, width]; `logits`, what a head gives.
            train: whether dropout acts.
            key: the source of its randomness.

        Raises:
            UserError: more tokens than `context_length`, a name that `capture` doesn't know, or no key where training
                needs one.
        """
        capture, key = check(capture, self.captures), self.config.key(train, key)
        seen = self._run(tokens, tokens_types, tokens_segments, tokens_positions, key, capture)
        x = seen["tokens"]
        if "pooled" in capture:
            seen["pooled"] = self.pooled(x, tokens_segments)
        if self.config.head_kind == "pretraining":
            seen["logits"] = self.masked_logits(x)
        elif self.head is not None:
            seen["logits"] = self.class_logits(x, tokens_segments, fold(key, 2))
        return returned(seen.get("logits", x), seen, capture)

    def encode(
        self,
        tokens: jax.Array,
        *,
        tokens_types: jax.Array | None = None,
        tokens_segments: jax.Array | None = None,
        tokens_positions: jax.Array | None = None,
        key: jax.Array | None = None,
    ) -> jax.Array:
        """The tokens after the last block, [batch, tokens, width]; arguments as for a call, dropout with a key."""
        return self._run(tokens, tokens_types, tokens_segments, tokens_positions, key)["tokens"]

    def pooled(self, x: jax.Array, segments: jax.Array | None = None) -> jax.Array:
        """What a head of a whole text reads, float32 [batch, width]: the first token through the tanh layer; without
        that, the mean of the tokens or the first, as `pooling` says (https://arxiv.org/abs/1908.10084).

        Args:
            x: from `encode`.
            segments: int [batch, tokens]; 0 is padding and doesn't count; by default there is none.
        """
        x = x.astype(jnp.float32)
        if self.pooler is not None:
            return jnp.tanh(self.pooler(x[:, 0]))
        return self._embedding(x, segments)

    def masked_logits(self, x: jax.Array) -> jax.Array:
        """Encoded tokens [..., width] to float32 logits [..., vocabulary]."""
        assert self.masked_dense is not None
        assert self.masked_norm is not None
        assert self.masked_bias is not None
        x = activate(self.masked_dense(x), self.config.activation, custom_gradient=self.execution.uses_custom_gradient)
        return self.embedding.logits(self.masked_norm(x)) + self.masked_bias[...]

    def next_sentence_logits(self, x: jax.Array) -> jax.Array:
        """Encoded tokens to float32 logits [batch, 2]: the second sentence follows the first, or is a random one."""
        if self.next_sentence is None:
            raise UserError("model.pooler", False, "the next sentence is read from it; leave it true")
        return self.next_sentence(self.pooled(x))

    def class_logits(self, x: jax.Array, segments: jax.Array | None = None, key: jax.Array | None = None) -> jax.Array:
        """Encoded tokens to float32 logits of the text's, or of each token's, classes; or to the text's number.

        `segments` as for `pooled`; dropout with a key.
        """
        assert self.head is not None
        kind = self.config.head_kind
        x = x.astype(jnp.float32) if kind == "token_classes" else self.pooled(x, segments)
        x = self.head(dropout(x, self.config.dropout, key))
        return x[:, 0] if kind == "number" else x

    def sentence_embedding(self, x: jax.Array, segments: jax.Array) -> jax.Array:
        """A text as one vector, as the config's `pooling` and `unit_embedding` say: float32 [batch, width].

        Args:
            x: from `encode`.
            segments: int [batch, tokens]; 0 is padding and doesn't count.
        """
        vector = self._embedding(x.astype(jnp.float32), segments)
        if not self.config.unit_embedding:
            return vector
        return vector / jnp.maximum(jnp.linalg.norm(vector, axis=-1, keepdims=True), 1e-12)

    def _embedding(self, x: jax.Array, segments: jax.Array | None) -> jax.Array:
        """The mean of a text's tokens, or the first."""
        if self.config.pooling == "cls":
            return x[:, 0]
        if segments is None:
            return x.mean(1)
        real = (segments > 0).astype(x.dtype)[..., None]
        return (x * real).sum(1) / jnp.maximum(real.sum(1), 1)

    def _run(self, tokens, types, segments, positions, key, capture=frozenset()) -> Captured:
        text.check_ids("tokens", tokens, self.config.context_length)
        types = jnp.zeros_like(tokens) if types is None else types
        positions = text.places(tokens, positions)
        x = self.embedding(tokens) + self.position_embedding(positions) + self.type_embedding(types)
        embedded = dropout(self.embedding_norm(x), self.config.dropout, fold(key, 0))
        mask, known = text.self_mask(tokens, segments, causal=False), self.encoder.captures
        run = self.encoder(embedded, fold(key, 1), mask=mask, capture=capture.intersection(known))
        return {"embedded": embedded, **run.captured, "tokens": run.tokens}


def _block(c: BERTConfig, execution: Execution, rngs: nnx.Rngs) -> Block:
    shared: Any = {"kernel_init": INIT, "out_init": INIT, "rngs": rngs, "execution": execution}
    return Block(
        width=c.width,
        attention=Attention(c.width, c.num_heads, dropout=c.attention_dropout, query_init=INIT, **shared),
        mlp=MLP(c.width, c.mlp_dim, activation=c.activation, dropout=c.dropout, **shared),
        norm=partial(LayerNorm, c.width, epsilon=c.norm_epsilon, execution=execution),
        pre_norm=False,
        dropout=c.dropout,
    )
