"""T5: text to text (Raffel et al. 2020, https://arxiv.org/abs/1910.10683).

Version 1.0 has ReLU and one table for embedding and head; version 1.1, flan-T5, mT5 (https://arxiv.org/abs/2010.11934)
and ByT5 (https://arxiv.org/abs/2105.13626) have a gated GELU (https://arxiv.org/abs/2002.05202) and a separate head.
Logits of attention are not divided by the root of the head's size: the query's initial values are, which Adafactor's
relative steps keep so. Trained with AdamW, `scale_attention` divides instead.
"""

import dataclasses
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import normal

from vitzoo.errors import UserError
from vitzoo.models import text
from vitzoo.models.base import TransferRules
from vitzoo.models.encoder_decoder import EncoderDecoder
from vitzoo.nn import attention, embeddings, mlp, norms, relative, stack
from vitzoo.nn.attention import Attention
from vitzoo.nn.embeddings import Embedding
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import ACTIVATIONS, MLP
from vitzoo.nn.relative import DistanceBias
from vitzoo.nn.stack import Block, Stack
from vitzoo.nn.stochastic import dropout
from vitzoo.schema import setting
from vitzoo.strict_json import JSON


def _sizes(width: int, mlp_dim: int, num_heads: int, encoder: int, decoder: int | None = None, **more: Any) -> dict:
    depths = {"encoder_depth": encoder, "decoder_depth": encoder if decoder is None else decoder}
    return {"width": width, "mlp_dim": mlp_dim, "num_heads": num_heads, **depths, **more}


_GATED: dict[str, Any] = {"activation": "gelu_tanh", "gated_mlp": True, "tied_head": False}
_V1_1 = {
    "small": _sizes(512, 1024, 6, 8, **_GATED),
    "base": _sizes(768, 2048, 12, 12, **_GATED),
    "large": _sizes(1024, 2816, 16, 24, **_GATED),
    "xl": _sizes(2048, 5120, 32, 24, **_GATED),
    "xxl": _sizes(4096, 10_240, 64, 24, **_GATED),
}
_BYTES = {
    "small": _sizes(1472, 3584, 6, 12, 4, **_GATED),
    "base": _sizes(1536, 3968, 12, 18, 6, **_GATED),
    "large": _sizes(1536, 3840, 16, 36, 12, **_GATED),
    "xl": _sizes(2560, 6720, 32, 36, 12, **_GATED),
    "xxl": _sizes(4672, 12_352, 64, 36, 12, **_GATED),
}
VARIANTS: dict[str, dict[str, JSON]] = {
    "small": _sizes(512, 2048, 8, 6),
    "base": _sizes(768, 3072, 12, 12),
    "large": _sizes(1024, 4096, 16, 24),
    "3B": _sizes(1024, 16_384, 32, 24, head_dim=128),
    "11B": _sizes(1024, 65_536, 128, 24, head_dim=128),
    **{f"v1.1-{size}": sizes for size, sizes in _V1_1.items()},
    **{f"flan-{size}": sizes for size, sizes in _V1_1.items()},
    **{f"mt5-{size}": {**sizes, "vocabulary_size": 250_112} for size, sizes in _V1_1.items()},
    **{f"byt5-{size}": {**sizes, "vocabulary_size": 384} for size, sizes in _BYTES.items()},
}
VARIANTS = {name: {"vocabulary_size": 32_128, **sizes} for name, sizes in VARIANTS.items()}
PUBLISHED = list(VARIANTS)


@dataclasses.dataclass(frozen=True)
class T5Config(text.TextConfig):
    """What a T5 is."""

    VARIANTS = VARIANTS
    KIND = "encoder_decoder"
    TASK_PREFIX = True
    vocabulary_size: int | None = setting(None, "ids; none: the tokenizer's", minimum=1)
    width: int = setting(512, "size of a token", minimum=1, maximum=2**17)
    encoder_depth: int = setting(6, "blocks of the encoder", minimum=1, maximum=10_000)
    decoder_depth: int = setting(6, "blocks of the decoder", minimum=1, maximum=10_000)
    num_heads: int = setting(8, "attention heads", minimum=1)
    head_dim: int = setting(64, "size of an attention head; need not divide width", minimum=1)
    mlp_dim: int = setting(2048, "size between the layers of a block's MLP", minimum=1, maximum=2**20)
    activation: str = setting("relu", "of the MLP", choices=ACTIVATIONS)
    gated_mlp: bool = setting(False, "a third layer multiplies the activation")
    tied_head: bool = setting(True, "the head shares the embedding's table")
    scale_head: bool | None = setting(None, "the head's input is scaled by width^-0.5; none: where it is tied")
    scale_attention: bool = setting(False, "divide the logits by the root of head_dim, for training with AdamW")
    buckets: int = setting(32, "of distances between tokens", minimum=4)
    max_distance: int = setting(128, "beyond which all distances are one", minimum=4)
    norm_epsilon: float = setting(1e-6, "added to the mean square", above=0, maximum=0.1)
    dropout: float = setting(
        0.0, "on embeddings, attention weights, each part's output and the last norm's", minimum=0, below=1
    )
    start_id: int = setting(0, "the id that a target begins behind", minimum=0)

    @property
    def scales_head(self) -> bool:
        """Whether the head's input is scaled."""
        return self.tied_head if self.scale_head is None else self.scale_head

    def check(self) -> None:
        """Refuses fields that don't fit together, and says what would."""
        if self.max_distance <= self.buckets // 2:
            why = f"must be more than half of the {self.buckets} buckets, which hold one distance each"
            raise UserError("max_distance", self.max_distance, why)


class T5(EncoderDecoder):
    """Source and target ids to logits; see `EncoderDecoder`.

    Args:
        config: what it is.
        rngs: for the initial parameters.
        execution: how it is computed.

    Raises:
        UserError: fields of the config don't fit together, or a computation in float16.
    """

    Config = T5Config
    VARIANTS = VARIANTS
    PUBLISHED = PUBLISHED
    TRANSFER = TransferRules(
        fixed=(
            *("width", "encoder_depth", "decoder_depth", "mlp_dim", "num_heads", "head_dim", "gated_mlp", "tied_head"),
            "buckets",
        )
    )
    SHARDING_RULES: ClassVar = (
        *text.HEAD_RULES,
        *embeddings.VOCABULARY_RULES,
        *relative.DISTANCE_RULES,
        *(row for part in (norms, attention, mlp, stack) for row in part.RULES),
    )

    def __init__(self, config: T5Config, *, rngs: nnx.Rngs, execution: Execution = DEFAULT):
        c = self.config = config
        c.check()
        if execution.compute == jnp.float16:
            raise UserError("dtype", "float16", "the sums of a T5 exceed its largest number, 65,504; take bfloat16")
        shared: Any = {"rngs": rngs, "execution": execution}
        vocabulary = text.known_vocabulary(c.vocabulary_size)
        norm = text.make_norm("rms_norm", c.width, c.norm_epsilon, execution)
        self.embedding = Embedding(vocabulary, c.width, init=normal(1.0), **shared)
        self.encoder_distance_bias = _distance_bias(c, True, rngs)
        self.decoder_distance_bias = _distance_bias(c, False, rngs)
        self.encoder = Stack(c.encoder_depth, partial(_block, c, execution, False), norm=norm(), **shared)
        self.decoder = Stack(c.decoder_depth, partial(_block, c, execution, True), norm=norm(), **shared)
        init = normal(c.width**-0.5)
        self.head = None if c.tied_head else text.VocabularyHead(c.width, vocabulary, init=init, **shared)

    def embed(self, ids: jax.Array, positions: jax.Array, key: jax.Array | None) -> jax.Array:
        return dropout(self.embedding(ids), self.config.dropout, key)

    def bias(self, queries: jax.Array, keys: jax.Array, *, decoder: bool) -> jax.Array | None:
        return (self.decoder_distance_bias if decoder else self.encoder_distance_bias)(queries, keys)

    def finish(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
        return dropout(x, self.config.dropout, key)

    def logits(self, x: jax.Array) -> jax.Array:
        x = x * self.config.width**-0.5 if self.config.scales_head else x
        return self.embedding.logits(x) if self.head is None else self.head(x)


def _distance_bias(c: T5Config, bidirectional: bool, rngs: nnx.Rngs) -> DistanceBias:
    sizes: Any = {"buckets": c.buckets, "max_distance": c.max_distance, "init": normal(c.width**-0.5)}
    return DistanceBias(c.num_heads, bidirectional=bidirectional, rngs=rngs, **sizes)


def _block(c: T5Config, execution: Execution, decoder: bool, rngs: nnx.Rngs) -> Block:
    shared: Any = {"bias": False, "rngs": rngs, "execution": execution}
    of_width = normal(c.width**-0.5)

    def attend() -> Attention:
        return Attention(
            c.width,
            c.num_heads,
            head_dim=c.head_dim,
            scale=c.head_dim**-0.5 if c.scale_attention else 1.0,
            dropout=c.dropout,
            query_init=of_width if c.scale_attention else normal((c.width * c.head_dim) ** -0.5),
            kernel_init=of_width,
            out_init=normal((c.num_heads * c.head_dim) ** -0.5),
            **shared,
        )

    return Block(
        width=c.width,
        attention=attend(),
        cross_attention=attend() if decoder else None,
        mlp=MLP(
            c.width,
            c.mlp_dim,
            activation=c.activation,
            gated=c.gated_mlp,
            dropout=c.dropout,
            hidden_dropout=c.dropout,
            kernel_init=of_width,
            out_init=normal(c.mlp_dim**-0.5),
            **shared,
        ),
        norm=text.make_norm("rms_norm", c.width, c.norm_epsilon, execution),
        dropout=c.dropout,
    )
