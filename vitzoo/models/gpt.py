"""GPT: a decoder of text.

Radford et al. 2018, Improving Language Understanding by Generative Pre-Training (GPT-1); Radford et al. 2019, Language
Models are Unsupervised Multitask Learners (GPT-2); Brown et al. 2020, https://arxiv.org/abs/2005.14165 (GPT-3). With
rotary positions, RMSNorm, a gated SiLU, no biases and grouped keys it is a decoder of the LLaMA kind
(https://arxiv.org/abs/2302.13971).
"""

import dataclasses
from collections.abc import Collection
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import normal

from vitzoo.decoding.generate import Written, generate
from vitzoo.errors import UserError
from vitzoo.models import text
from vitzoo.models.base import TransferRules
from vitzoo.nn import attention, embeddings, masks, mlp, norms, stack
from vitzoo.nn.attention import NOWHERE, Attention, Places
from vitzoo.nn.capture import Captured, Capturing, Outputs, check, returned
from vitzoo.nn.embeddings import Embedding
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import ACTIVATIONS, MLP
from vitzoo.nn.positions import rotation
from vitzoo.nn.stack import Block, KVCache, Stack
from vitzoo.nn.stochastic import dropout, fold
from vitzoo.schema import setting
from vitzoo.strict_json import JSON


def _sizes(width: int, depth: int, num_heads: int, **more: Any) -> dict[str, Any]:
    return {"width": width, "depth": depth, "num_heads": num_heads, "mlp_dim": 4 * width, **more}


_GPT1: dict[str, Any] = {"vocabulary_size": 40_478, "context_length": 512, "pre_norm": False}
_GPT2: dict[str, Any] = {"vocabulary_size": 50_257, "context_length": 1024}
_GPT3: dict[str, Any] = {"vocabulary_size": 50_257, "context_length": 2048}
VARIANTS: dict[str, dict[str, JSON]] = {
    "gpt1": _sizes(768, 12, 12, **_GPT1),
    "gpt2-124M": _sizes(768, 12, 12, **_GPT2),
    "gpt2-355M": _sizes(1024, 24, 16, **_GPT2),
    "gpt2-774M": _sizes(1280, 36, 20, **_GPT2),
    "gpt2-1558M": _sizes(1600, 48, 25, **_GPT2),
    "gpt3-125M": _sizes(768, 12, 12, **_GPT3),
    "gpt3-350M": _sizes(1024, 24, 16, **_GPT3),
    "gpt3-760M": _sizes(1536, 24, 16, **_GPT3),
    "gpt3-1.3B": _sizes(2048, 24, 16, **_GPT3),
    "gpt3-2.7B": _sizes(2560, 32, 32, **_GPT3),
    "gpt3-6.7B": _sizes(4096, 32, 32, **_GPT3),
    "gpt3-13B": _sizes(5120, 40, 40, **_GPT3),
    "gpt3-175B": _sizes(12_288, 96, 96, **_GPT3),
    "gopher-44m": _sizes(512, 8, 16),
    "gpt-mini": _sizes(192, 6, 6),
    "gpt-micro": _sizes(128, 4, 4),
    "gpt-nano": _sizes(48, 3, 3),
}
PUBLISHED = list(VARIANTS)
"""What is listed; the sizes of GPT-2 also go by the names they were published under."""
VARIANTS |= {
    "gpt2-117M": VARIANTS["gpt2-124M"],
    "gpt2-345M": VARIANTS["gpt2-355M"],
    "gpt2-762M": VARIANTS["gpt2-774M"],
    "gpt2-1542M": VARIANTS["gpt2-1558M"],
}


@dataclasses.dataclass(frozen=True)
class GPTConfig(text.TextConfig):
    """What a GPT is."""

    VARIANTS = VARIANTS
    KIND = "decoder"
    vocabulary_size: int | None = setting(None, "ids; none: the tokenizer's", minimum=1)
    context_length: int = setting(1024, "most tokens of a text", minimum=1, maximum=2**24)
    width: int = setting(768, "size of a token", minimum=1, maximum=2**17)
    depth: int = setting(12, "number of blocks", minimum=1, maximum=10_000)
    num_heads: int = setting(12, "attention heads; divides width", minimum=1)
    num_kv_heads: int | None = setting(None, "heads of keys and values, each for a group; none: num_heads", minimum=1)
    mlp_dim: int = setting(3072, "size between the layers of a block's MLP", minimum=1, maximum=2**20)
    activation: str = setting("gelu_tanh", "of the MLP", choices=ACTIVATIONS)
    gated_mlp: bool = setting(False, "a third layer multiplies the activation")
    bias: bool = setting(True, "of attention and MLP")
    norm: str = setting("layer_norm", "kind of norms", choices=text.NORMS)
    norm_bias: bool = setting(True, "of LayerNorms; RMSNorm has none")
    norm_epsilon: float = setting(1e-5, "added to the variance", above=0, maximum=0.1)
    pre_norm: bool = setting(True, "norm before each part and a last one (GPT-2); after each sum (GPT-1)")
    qk_norm: bool = setting(False, "LayerNorm on queries and keys")
    positions: str = setting("learned", "how a token knows its place", choices=("learned", "rotary", "none"))
    rotary_base: float = setting(
        10_000.0,
        "ratio of the fastest to the slowest rotary angle, nearly",
        above=1,
        needs=("{section}.positions=rotary", lambda own: own.positions == "rotary"),
    )
    tied_head: bool = setting(True, "the head shares the embedding's table")
    vocabulary_multiple: int = setting(
        1, "the table has a multiple of this many rows, 128 for speed; the added ids have no logit", minimum=1
    )
    dropout: float = setting(0.0, "after the embedding, after attention and after the MLP", minimum=0, below=1)
    attention_dropout: float = setting(0.0, "on the attention weights", minimum=0, below=1)
    prefix_lm: bool | None = setting(
        None, "what a text begins with is read in both directions; never set: objective.name=prefix_lm says it"
    )

    def check(self) -> None:
        """Refuses fields that don't fit together, and says what would."""
        text.check_divides("num_heads", self.num_heads, "width", self.width)
        if self.num_kv_heads is not None:
            text.check_divides("num_kv_heads", self.num_kv_heads, "num_heads", self.num_heads)
        if self.positions == "rotary" and self.head_dim % 2:
            raise UserError(
                "num_heads", self.num_heads, f"gives heads of {self.head_dim}; rotary positions need even ones"
            )

    @property
    def head_dim(self) -> int:
        """Size of an attention head."""
        return self.width // self.num_heads

    @property
    def table_rows(self) -> int:
        """Rows of the embedding: the vocabulary, rounded up."""
        return -(-text.known_vocabulary(self.vocabulary_size) // self.vocabulary_multiple) * self.vocabulary_multiple


class GPT(Capturing, nnx.Module):
    """A decoder: ids [batch, tokens] to float32 logits [batch, tokens, vocabulary] of each next token.

    Args:
        config: what it is.
        rngs: for the initial parameters: normal with deviation 0.02, what joins the residual stream divided by the
            root of twice the depth (GPT-2, section 2.3).
        execution: how it is computed.

    Raises:
        UserError: fields of the config don't fit together.
    """

    Config = GPTConfig
    VARIANTS = VARIANTS
    INPUTS = {
        "tokens": "text",
        "tokens_segments": "segments",
        "tokens_positions": "positions",
        "tokens_prefix": "prefix",
    }
    PUBLISHED = PUBLISHED
    TRANSFER = TransferRules(
        fixed=(
            *("width", "depth", "mlp_dim", "num_heads", "num_kv_heads", "gated_mlp", "bias", "norm", "norm_bias"),
            *("pre_norm", "tied_head"),
        ),
        leaves={"qk_norm": r".*/(query|key)_norm/.*"},
    )
    SHARDING_RULES: ClassVar = (
        *text.HEAD_RULES,
        *embeddings.VOCABULARY_RULES,
        *embeddings.PLACE_RULES,
        *(row for part in (norms, attention, mlp, stack) for row in part.RULES),
    )

    def __init__(self, config: GPTConfig, *, rngs: nnx.Rngs, execution: Execution = DEFAULT):
        c = self.config = config
        c.check()
        shared: Any = {"rngs": rngs, "execution": execution}
        norm = text.make_norm(c.norm, c.width, c.norm_epsilon, execution, bias=c.norm_bias)
        self.embedding = Embedding(c.table_rows, c.width, **shared)
        learned = c.positions == "learned"
        self.position_embedding = Embedding(c.context_length, c.width, **shared) if learned else None
        self.decoder = Stack(c.depth, partial(_block, c, execution), norm=norm() if c.pre_norm else None, **shared)
        own_head = not c.tied_head
        self.head = text.VocabularyHead(c.width, c.table_rows, init=normal(0.02), **shared) if own_head else None

    @property
    def captures(self) -> tuple[str, ...]:
        """The names that `capture` knows."""
        return ("embedded", *self.decoder.captures, "tokens", "logits")

    def __call__(
        self,
        tokens: jax.Array,
        *,
        tokens_segments: jax.Array | None = None,
        tokens_positions: jax.Array | None = None,
        tokens_prefix: jax.Array | None = None,
        capture: Collection[str] = (),
        train: bool = False,
        key: jax.Array | None = None,
    ) -> Outputs:
        """Logits of the token after each, float32 [batch, tokens, vocabulary]; with `capture`, `(logits, captured)`.

        Args:
            tokens: int [batch, tokens].
            tokens_segments: int [batch, tokens], which of the texts packed into a row a token belongs to; 0 is padding.
            tokens_positions: int [batch, tokens], each token's place in its text; 0, 1, 2 ... by default.
            tokens_prefix: bool [batch, tokens], tokens that see each other in both directions, those of each text
                apart: what it begins with. None by default, under `prefix_lm` too.
            capture: what else to give, by name: `embedded` [batch, tokens, width]; `blocks` [depth, batch, tokens,
                width], what each block made of it; `attention` [depth, batch, heads, tokens, tokens]; `tokens`, after
                the last norm; `logits`.
            train: whether dropout acts.
            key: the source of its randomness.

        Raises:
            UserError: more tokens than `context_length`, a name that `capture` doesn't know, or no key where training
                needs one.
        """
        text.check_ids("tokens", tokens, self.config.context_length)
        capture, key = check(capture, self.captures), self.config.key(train, key)
        positions = text.places(tokens, tokens_positions)
        embedded = self._embed(tokens, positions, fold(key, 0))
        run = self.decoder(
            embedded,
            fold(key, 1),
            mask=text.self_mask(tokens, tokens_segments, causal=True, prefix=tokens_prefix),
            places=self._places(positions),
            capture=capture.intersection(self.decoder.captures),
        )
        seen: Captured = {"embedded": embedded, **run.captured, "tokens": run.tokens}
        logits = seen["logits"] = self._logits(run.tokens)
        return returned(logits, seen, capture)

    def begin(self, batch: int, length: int) -> KVCache:
        """An empty cache for `batch` texts of `length` tokens at most (under learned positions `context_length`)."""
        if self.position_embedding is not None and length > self.config.context_length:
            raise UserError("length", length, f"is more than context_length = {self.config.context_length}")
        return self.decoder.empty_cache(batch, length)

    def extend(
        self,
        tokens: jax.Array,
        positions: jax.Array,
        cache: KVCache,
        *,
        keep: jax.Array | None = None,
        prefix: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache]:
        """The next tokens of texts whose earlier ones are in the cache.

        Args:
            tokens: int [batch, new tokens].
            positions: int [batch, new tokens], their places. What stands in the cache beyond a token's own place is
                not seen, so that rows may be filled up at the end with anything.
            cache: from `begin` or `extend`.
            keep: int [batch], the only new token of each row whose logits are wanted.
            prefix: int [batch], so many places of each row are seen by all new tokens, those before them too; they have
                to be in the cache by then.

        Returns:
            Logits float32 [batch, new tokens (1 with `keep`), vocabulary], and the cache with the new tokens in it.
        """
        length = cache.past.key.shape[2]
        x = self._embed(tokens, positions, None)
        seen = masks.up_to(positions, length)
        if prefix is not None:
            seen = seen | masks.prefix(jnp.arange(length) < prefix[:, None])
        run = self.decoder(x, cache=cache, at=positions, mask=seen, places=self._places(positions))
        assert run.cache is not None
        wanted = run.tokens if keep is None else jnp.take_along_axis(run.tokens, keep[:, None, None], 1)
        return self._logits(wanted), run.cache

    def generate(self, tokens: jax.Array, lengths: jax.Array | None = None, **how: Any) -> Written:
        """Continues prompts, from ids to ids: see `decoding.generate`.

        Args:
            tokens: int [batch, tokens], filled up at the end.
            lengths: int [batch], tokens of each; all by default.
            how: `max_new_tokens=20`, `end_id=1`, `temperature=0.8` ..., or `num_beams=4`.
        """
        return generate(self, tokens, lengths, **how)

    def _embed(self, tokens: jax.Array, positions: jax.Array, key: jax.Array | None) -> jax.Array:
        x = self.embedding(tokens)
        if self.position_embedding is not None:
            x = x + self.position_embedding(positions)
        return dropout(x, self.config.dropout, key)

    def _places(self, positions: jax.Array) -> Places:
        if self.config.positions != "rotary":
            return NOWHERE
        return Places(rotation(positions, self.config.head_dim, self.config.rotary_base))

    def _logits(self, x: jax.Array) -> jax.Array:
        logits = self.embedding.logits(x) if self.head is None else self.head(x)
        return logits[..., : self.config.vocabulary_size]


def _block(c: GPTConfig, execution: Execution, rngs: nnx.Rngs) -> Block:
    to_residual = normal(0.02 / (2 * c.depth) ** 0.5)
    shared: Any = {"bias": c.bias, "kernel_init": normal(0.02), "out_init": to_residual}
    shared |= {"rngs": rngs, "execution": execution}
    return Block(
        width=c.width,
        attention=Attention(
            c.width,
            c.num_heads,
            num_kv_heads=c.num_kv_heads,
            qk_norm=c.qk_norm,
            dropout=c.attention_dropout,
            norm_epsilon=c.norm_epsilon,
            query_init=normal(0.02),
            **shared,
        ),
        mlp=MLP(c.width, c.mlp_dim, activation=c.activation, gated=c.gated_mlp, dropout=c.dropout, **shared),
        norm=text.make_norm(c.norm, c.width, c.norm_epsilon, execution, bias=c.norm_bias),
        pre_norm=c.pre_norm,
        dropout=c.dropout,
    )
