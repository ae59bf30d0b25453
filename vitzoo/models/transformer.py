"""The Transformer of 2017 (Vaswani et al., Attention Is All You Need, https://arxiv.org/abs/1706.03762)."""

import dataclasses
from functools import partial
from typing import Any, ClassVar

import jax
from flax import nnx
from jax.nn.initializers import normal

from vitzoo.errors import UserError
from vitzoo.models import text
from vitzoo.models.base import TransferRules
from vitzoo.models.encoder_decoder import EncoderDecoder
from vitzoo.nn import attention, embeddings, mlp, norms, stack
from vitzoo.nn.attention import Attention
from vitzoo.nn.embeddings import Embedding
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import ACTIVATIONS, MLP
from vitzoo.nn.positions import sinusoids
from vitzoo.nn.stack import Block, Stack
from vitzoo.nn.stochastic import dropout
from vitzoo.schema import setting

VARIANTS: dict[str, dict[str, Any]] = {
    "base": {"width": 512, "depth": 6, "num_heads": 8, "mlp_dim": 2048, "dropout": 0.1},
    "big": {"width": 1024, "depth": 6, "num_heads": 16, "mlp_dim": 4096, "dropout": 0.3},
}
"""Table 3 of the paper."""
PUBLISHED = list(VARIANTS)


@dataclasses.dataclass(frozen=True)
class TransformerConfig(text.TextConfig):
    """What it is: `depth` blocks in the encoder and as many in the decoder."""

    VARIANTS = VARIANTS
    KIND = "encoder_decoder"
    USUAL_VOCABULARY = 37_000  # the paper's, of English and German
    vocabulary_size: int | None = setting(None, "ids; none: the tokenizer's", minimum=1)
    width: int = setting(512, "size of a token", minimum=1, maximum=2**17)
    depth: int = setting(6, "blocks of the encoder, and of the decoder", minimum=1, maximum=10_000)
    num_heads: int = setting(8, "attention heads; divides width", minimum=1)
    mlp_dim: int = setting(2048, "size between the two layers of a block's MLP", minimum=1, maximum=2**20)
    activation: str = setting("relu", "of the MLP", choices=ACTIVATIONS)
    pre_norm: bool = setting(False, "norm before each part instead of after each sum")
    tied_head: bool = setting(True, "the head shares the table of both embeddings (section 3.4)")
    norm_epsilon: float = setting(1e-6, "added to the variance", above=0, maximum=0.1)
    dropout: float = setting(
        0.1, "on embeddings, attention weights, hidden layer and each part's output", minimum=0, below=1
    )
    start_id: int = setting(0, "the id that a target begins behind", minimum=0)

    def check(self) -> None:
        """Refuses fields that don't fit together, and says what would."""
        text.check_divides("num_heads", self.num_heads, "width", self.width)
        if self.width % 2:
            raise UserError("width", self.width, "must be even: half of it holds sines, half cosines")


class Transformer(EncoderDecoder):
    """Source and target ids to logits; see `EncoderDecoder`.

    Args:
        config: what it is.
        rngs: for the initial parameters.
        execution: how it is computed.

    Raises:
        UserError: fields of the config don't fit together.
    """

    Config = TransformerConfig
    VARIANTS = VARIANTS
    PUBLISHED = PUBLISHED
    TRANSFER = TransferRules(fixed=("width", "depth", "mlp_dim", "num_heads", "pre_norm", "tied_head"))
    SHARDING_RULES: ClassVar = (
        *text.HEAD_RULES,
        *embeddings.VOCABULARY_RULES,
        *(row for part in (norms, attention, mlp, stack) for row in part.RULES),
    )

    def __init__(self, config: TransformerConfig, *, rngs: nnx.Rngs, execution: Execution = DEFAULT):
        c = self.config = config
        c.check()
        shared: Any = {"rngs": rngs, "execution": execution}
        vocabulary, init = text.known_vocabulary(c.vocabulary_size), normal(c.width**-0.5)
        norm = text.make_norm("layer_norm", c.width, c.norm_epsilon, execution)
        self.embedding = Embedding(vocabulary, c.width, init=init, **shared)
        last = (lambda: norm()) if c.pre_norm else (lambda: None)
        self.encoder = Stack(c.depth, partial(_block, c, execution, False), norm=last(), **shared)
        self.decoder = Stack(c.depth, partial(_block, c, execution, True), norm=last(), **shared)
        self.head = None if c.tied_head else text.VocabularyHead(c.width, vocabulary, init=init, **shared)

    def embed(self, ids: jax.Array, positions: jax.Array, key: jax.Array | None) -> jax.Array:
        x = self.embedding(ids) * self.config.width**0.5
        return dropout(x + sinusoids(positions, self.config.width).astype(x.dtype), self.config.dropout, key)

    def bias(self, queries: jax.Array, keys: jax.Array, *, decoder: bool) -> jax.Array | None:
        return None

    def finish(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
        return x

    def logits(self, x: jax.Array) -> jax.Array:
        return self.embedding.logits(x) if self.head is None else self.head(x)


def _block(c: TransformerConfig, execution: Execution, decoder: bool, rngs: nnx.Rngs) -> Block:
    shared: Any = {"rngs": rngs, "execution": execution}
    attend = partial(Attention, c.width, c.num_heads, dropout=c.dropout, **shared)
    return Block(
        width=c.width,
        attention=attend(),
        cross_attention=attend() if decoder else None,
        mlp=MLP(
            c.width,
            c.mlp_dim,
            activation=c.activation,
            dropout=c.dropout,
            hidden_dropout=c.dropout,
            **shared,
        ),
        norm=text.make_norm("layer_norm", c.width, c.norm_epsilon, execution),
        pre_norm=c.pre_norm,
        dropout=c.dropout,
    )
