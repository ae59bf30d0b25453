"""The Vision Transformer (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929).

An image is cut into patches and a linear map makes each a token; a class token goes before them; positions are added;
a Transformer encoder mixes and transforms the tokens; one of them, or their average, goes through a linear head.

What the tokens before the patches get under each kind of positions: `learned1d` has a row for the class token, as in
the paper; `learned2d` and `sincos2d` add nothing to it; under `relative` and `relative_bias` pairs with such a token
get nothing; under `rotary` such a token doesn't turn. Registers never get a position.
"""

import dataclasses
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.nn.initializers import constant, lecun_normal, normal, zeros

from vitzoo.errors import Refused
from vitzoo.models.geometry import ImageGeometry, patch_variant
from vitzoo.nn import attention, embeddings, mlp, norms, pooling, positions, stack
from vitzoo.nn.attention import Attention, Places
from vitzoo.nn.dense import Dense
from vitzoo.nn.embeddings import PatchEmbedding
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.pooling import AttentionPooling
from vitzoo.nn.positions import METHODS, Learned1D, Learned2D, SinCos2D
from vitzoo.nn.relative import RelativeBias, RelativeEmbedding
from vitzoo.nn.rotary import axial_rotation
from vitzoo.nn.stack import Block, Stack
from vitzoo.nn.stochastic import dropout, fold, kept_patches, kept_tokens
from vitzoo.schema import setting

VARIANTS: dict[str, dict[str, int]] = {
    "Ti": {"width": 192, "depth": 12, "mlp_dim": 768, "num_heads": 3},
    "s": {"width": 256, "depth": 6, "mlp_dim": 1024, "num_heads": 8},
    "S": {"width": 384, "depth": 12, "mlp_dim": 1536, "num_heads": 6},
    "B": {"width": 768, "depth": 12, "mlp_dim": 3072, "num_heads": 12},
    "L": {"width": 1024, "depth": 24, "mlp_dim": 4096, "num_heads": 16},
    "H": {"width": 1280, "depth": 32, "mlp_dim": 5120, "num_heads": 16},
    "g": {"width": 1408, "depth": 40, "mlp_dim": 6144, "num_heads": 16},
    "G": {"width": 1664, "depth": 48, "mlp_dim": 8192, "num_heads": 16},
}
"""Sizes. A variant is a size and a patch, `S/16`; any patch goes with any size."""

PUBLISHED = [
    *("s/28", "s/16", "S/32", "Ti/16", "B/32", "S/16", "B/28", "B/16"),
    *("L/32", "L/16", "H/14", "g/14", "G/14"),
]
"""Variants that papers report on, by cost."""

POSITIONS = ("none", "learned1d", "learned2d", "sincos2d", "relative", "relative_bias", "rotary")


@dataclasses.dataclass(frozen=True)
class ViTConfig(ImageGeometry):
    """What a ViT is. Sizes are (height, width) in pixels, or one number for both."""

    patch_size: int | tuple[int, int] = setting(16, "pixels of a patch", minimum=1)
    width: int = setting(384, "size of a token", minimum=1, maximum=2**17)
    depth: int = setting(12, "number of blocks", minimum=1, maximum=10_000)
    mlp_dim: int = setting(1536, "size between the two layers of a block's MLP", minimum=1, maximum=2**20)
    num_heads: int = setting(6, "attention heads; divides width", minimum=1)
    num_classes: int | None = setting(None, "outputs of the head; none: from the data; 0: no head", minimum=0)
    image_size: int | tuple[int, int] | None = setting(
        None, "pixels of an image; none: from the data, else 224", minimum=1
    )
    channels: int | None = setting(None, "of an image; none: from the data, else 3", minimum=1)
    pooling: str = setting("cls", "what the head sees: class token, average, attention", choices=("cls", "gap", "map"))
    class_token: bool | None = setting(None, "whether there is one; none: when pooling is cls")
    registers: int = setting(0, "tokens that are thrown away at the end (arXiv 2309.16588)", minimum=0)
    positions: str = setting("learned1d", "how a token knows its place", choices=POSITIONS)
    position_deviation: float = setting(
        0.02, "of learned positions at the start; 0.5 makes tiny images learn their places at once", above=0
    )
    rotary_base: float = setting(100.0, "ratio of the fastest to the slowest rotary angle, nearly", above=1)
    position_resize: str = setting("corner_linear", "how positions go to another grid", choices=METHODS)
    position_antialias: bool = setting(False, "smooth bilinear and bicubic when the grid shrinks")
    layer_scale: float | None = setting(None, "initial factor of each branch; none: left out", above=0)
    qk_norm: bool = setting(False, "LayerNorm on queries and keys")
    dropout: float = setting(0.0, "after the embedding, after attention and in the MLP", minimum=0, below=1)
    attention_dropout: float = setting(0.0, "on the attention weights", minimum=0, below=1)
    drop_path: float = setting(0.0, "stochastic depth: rate of the last block", minimum=0, below=1)
    drop_path_schedule: str = setting("linear", "of the rate over depth, from 0", choices=("linear", "uniform"))
    patch_dropout: float = setting(0.0, "share of the patches left out in training", minimum=0, below=1)
    pre_logits: bool | int = setting(False, "a tanh layer before the head; a number is its width", minimum=0)
    gelu: str = setting("tanh", "Google's weights have tanh, timm's exact", choices=("tanh", "exact"))
    norm_epsilon: float = setting(1e-6, "added to the variance", above=0)
    norm_after_pooling: bool = setting(False, "final norm after pooling instead of before")
    head_bias_init: float = setting(0.0, "bias of the head; about -log(classes) for a sigmoid loss")

    @classmethod
    def from_variant(cls, variant: str, **changes: Any) -> "ViTConfig":
        """`Config.from_variant("S/16", num_classes=10)`; Refused if unknown, or if the fields don't fit together."""
        config = cls(**{**patch_variant(variant, VARIANTS, PUBLISHED), **changes})
        config.check()
        return config

    def check(self) -> None:
        """Refuses fields that don't fit together, and says what would."""
        if self.width % self.num_heads:
            divisors = [n for n in range(1, self.width + 1) if self.width % n == 0]
            low, high = sorted(sorted(divisors, key=lambda n: abs(n - self.num_heads))[:2])
            raise Refused("num_heads", self.num_heads, f"does not divide width {self.width} (nearest: {low}, {high})")
        unit = {"rotary": 4 * self.num_heads, "learned2d": 2, "sincos2d": 4}.get(self.positions, 1)
        if self.width % unit:
            near = ", ".join(str(n) for n in (self.width // unit * unit, self.width // unit * unit + unit) if n)
            why = f"positions={self.positions} needs a multiple of {unit} (nearest: {near})"
            raise Refused("width", self.width, why)
        if self.pooling == "cls" and self.class_token is False:
            raise Refused("class_token", False, "pooling=cls needs it; or take pooling gap or map")
        if self.image_size is not None:
            self.check_grid()

    @property
    def has_class_token(self) -> bool:
        """Whether a class token stands before the patches."""
        return self.pooling == "cls" if self.class_token is None else self.class_token

    @property
    def prefix_tokens(self) -> int:
        """Tokens before the patches: class token, then registers."""
        return int(self.has_class_token) + self.registers

    @property
    def head_dim(self) -> int:
        """Size of an attention head."""
        return self.width // self.num_heads

    @property
    def drop_path_rates(self) -> np.ndarray | None:
        """[depth], each block's rate; `linear` runs from 0 to `drop_path` (a single block gets it whole)."""
        first = self.drop_path if self.drop_path_schedule == "uniform" or self.depth == 1 else 0
        return np.linspace(first, self.drop_path, self.depth, dtype=np.float32) if self.drop_path else None

    @property
    def random(self) -> bool:
        """Whether training draws random numbers inside the model."""
        return any((self.dropout, self.attention_dropout, self.drop_path, self.patch_dropout))


Config = ViTConfig


class ViT(nnx.Module):
    """A Vision Transformer: float images [batch, height, width, channels] to float32 logits [batch, classes].

    Args:
        config: what it is.
        rngs: for the initial parameters.
        execution: how it is computed.

    Raises:
        Refused: fields of the config don't fit together.
    """

    Config = ViTConfig
    VARIANTS = VARIANTS
    PUBLISHED = PUBLISHED
    SHARDING_RULES: ClassVar = (
        (r"class_token|registers", (None, None, "embed")),
        (r"pre_logits/kernel", ("embed", None)),
        (r"head/kernel", ("embed", "classes")),
        (r"head/bias", ("classes",)),
        (r"pre_logits/bias", (None,)),
        *(row for part in (embeddings, positions, pooling, norms, attention, mlp, stack) for row in part.RULES),
    )

    def __init__(self, config: ViTConfig, *, rngs: nnx.Rngs, execution: Execution = DEFAULT):
        c = self.config = config
        c.check()
        c.check_grid()
        parts: Any = {"rngs": rngs, "execution": execution}
        exact: Any = {"rngs": rngs, "execution": dataclasses.replace(execution, dtype="float32")}
        # input
        self.patch_embedding = PatchEmbedding(c.patch_shape, c.image_shape[2], c.width, **parts)
        self.class_token = nnx.Param(jnp.zeros((1, 1, c.width))) if c.has_class_token else None
        self.registers = nnx.Param(normal(0.02)(rngs.params(), (1, c.registers, c.width))) if c.registers else None
        self.positions = _positions(c, rngs)
        # encoder
        norm = None if c.norm_after_pooling else LayerNorm(c.width, epsilon=c.norm_epsilon, execution=execution)
        self.encoder = Stack(c.depth, partial(_block, c, execution), norm=norm, **parts)
        # output, from here on in float32
        how: Any = {"activation": f"gelu_{c.gelu}", "norm_epsilon": c.norm_epsilon, **exact}
        self.pool = AttentionPooling(c.width, c.mlp_dim, c.num_heads, **how) if c.pooling == "map" else None
        norm = LayerNorm(c.width, epsilon=c.norm_epsilon, execution=exact["execution"])
        self.head_norm = norm if c.norm_after_pooling else None
        hidden = c.width if c.pre_logits is True else int(c.pre_logits)
        self.pre_logits = Dense(c.width, hidden, kernel_init=lecun_normal(), **exact) if hidden else None
        inits: Any = {"kernel_init": zeros, "bias_init": constant(c.head_bias_init)}
        self.head = Dense(hidden or c.width, c.num_classes, **inits, **exact) if c.num_classes else None

    def __call__(self, images: jax.Array, *, train: bool = False, key: jax.Array | None = None) -> jax.Array:
        """Logits [batch, classes] in float32; without a head, what it would see, [batch, width].

        Args:
            images: [batch, height, width, channels], floats scaled as the weights were trained.
            train: whether dropout, stochastic depth and patch dropout act.
            key: the source of their randomness.

        Raises:
            Refused: images of another size or type, or no key where training needs one.
        """
        seen = self._run(images, self._key(train, key))
        return seen["pooled"] if self.head is None else seen["logits"]

    def features(
        self, images: jax.Array, *, attention: bool = False, train: bool = False, key: jax.Array | None = None
    ) -> dict[str, jax.Array]:
        """Everything seen on the way, by name. Tokens stand in the order class token, registers, patches.

        Args:
            images, train, key: as for a call.
            attention: add every layer's attention weights.

        Returns:
            `embedded` [batch, tokens, width], what the first block gets; `block_0`, ..., what each block made of it;
            `tokens`, after the final norm where that comes before pooling; `pooled` [batch, width], what the head gets;
            `logits` where there is a head; with `attention`, `attention` [depth, batch, heads, tokens, tokens] and,
            where a probe pools, `pool_attention` [batch, heads, 1, patches].
        """
        return self._run(images, self._key(train, key), features=True, weights=attention)

    def _key(self, train: bool, key: jax.Array | None) -> jax.Array | None:
        if train and key is None and self.config.random:
            raise Refused("key", None, "training with dropout, drop_path or patch_dropout needs one (jax.random.key)")
        return key if train else None

    def _run(self, images, key, features=False, weights=False) -> dict[str, jax.Array]:
        embedded, places = self._embed(images, fold(key, 0))
        rates = self.config.drop_path_rates
        run = self.encoder(embedded, fold(key, 1), rates, features=features, weights=weights, places=places)
        pooled, pool_attention = self._pool(run.tokens, weights)
        blocks = {} if run.blocks is None else {f"block_{index}": x for index, x in enumerate(run.blocks)}
        seen = {"embedded": embedded, **blocks, "tokens": run.tokens, "pooled": pooled}
        seen |= {} if self.head is None else {"logits": self.head(pooled)}
        seen |= {} if run.attention is None else {"attention": run.attention}
        return seen | ({} if pool_attention is None else {"pool_attention": pool_attention})

    def _embed(self, images: jax.Array, key: jax.Array | None) -> tuple[jax.Array, Places]:
        """The tokens before the first block, and where they stand."""
        c = self.config
        c.check_images(images)
        x = self.patch_embedding(images)
        if self.class_token is not None:
            x = _insert(x, 0, self.class_token[...])
        if self.positions is not None:
            added = self.positions()
            x = x + jnp.pad(added, ((0, 0), (x.shape[1] - added.shape[1], 0), (0, 0))).astype(x.dtype)
        if self.registers is not None:
            x = _insert(x, int(c.has_class_token), self.registers[...])
        patches, rotation = jnp.arange(c.patches)[None], None
        if c.positions == "rotary":
            rotation = axial_rotation(c.grid, c.prefix_tokens, c.head_dim, c.rotary_base)
        if key is not None and c.patch_dropout:
            patches = kept_patches(c.patch_dropout, jax.random.fold_in(key, 0), len(x), c.patches)
            x, rotation = kept_tokens((x, rotation), patches, c.prefix_tokens)
        return dropout(x, c.dropout, fold(key, 1)), Places(rotation, patches)

    def _pool(self, tokens: jax.Array, weights: bool) -> tuple[jax.Array, jax.Array | None]:
        """What the head gets, float32 [batch, width], and the probe's weights where asked for."""
        patches, seen = tokens[:, self.config.prefix_tokens :], None
        if self.pool is not None:
            x, seen = self.pool(patches, weights=weights)
        else:
            x = tokens[:, 0] if self.config.pooling == "cls" else pooling.mean(patches)
        x = x.astype(jnp.float32)
        x = x if self.head_norm is None else self.head_norm(x)
        return x if self.pre_logits is None else jnp.tanh(self.pre_logits(x)), seen


def _positions(c: ViTConfig, rngs: nnx.Rngs) -> nnx.Module | None:
    """What is added to the tokens."""
    if c.positions == "learned1d":
        return Learned1D(int(c.has_class_token) + c.patches, c.width, deviation=c.position_deviation, rngs=rngs)
    if c.positions == "learned2d":
        return Learned2D(c.grid, c.width, rngs=rngs)
    return SinCos2D(c.grid, c.width) if c.positions == "sincos2d" else None


def _block(c: ViTConfig, execution: Execution, rngs: nnx.Rngs) -> Block:
    relative: nnx.Module | None = None
    if c.positions == "relative":
        relative = RelativeEmbedding(c.patches, c.head_dim, rngs=rngs)
    elif c.positions == "relative_bias":
        relative = RelativeBias(c.grid, c.num_heads, rngs=rngs)
    shared: Any = {"rngs": rngs, "execution": execution}
    return Block(
        width=c.width,
        attention=Attention(
            c.width,
            c.num_heads,
            qk_norm=c.qk_norm,
            dropout=c.attention_dropout,
            norm_epsilon=c.norm_epsilon,
            relative=relative,
            **shared,
        ),
        mlp=MLP(
            c.width,
            c.mlp_dim,
            activation=f"gelu_{c.gelu}",
            dropout=c.dropout,
            hidden_dropout=c.dropout,
            **shared,
        ),
        norm=partial(LayerNorm, c.width, epsilon=c.norm_epsilon, execution=execution),
        layer_scale=c.layer_scale,
        dropout=c.dropout,
    )


def _insert(x: jax.Array, at: int, tokens: jax.Array) -> jax.Array:
    """`tokens` [1, n, width] into every row of x."""
    more = jnp.broadcast_to(tokens.astype(x.dtype), (len(x), *tokens.shape[1:]))
    return jnp.concatenate([x[:, :at], more, x[:, at:]], axis=1)
