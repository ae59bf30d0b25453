"""The Vision Transformer (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929).

An image is cut into patches; a linear map makes each a token; positions are added; a Transformer encoder mixes and
transforms the tokens; one of them, or their average, goes through a linear head.

What tokens before the patches (class token, registers) get under each kind of positions: `learned1d` has a row for the
class token, as in the paper, none for registers; under `learned2d` and `sincos2d` nothing is added to them; under
`relative` and `relative_bias` pairs with them get nothing; under `rotary` they don't turn.
"""

import dataclasses
import difflib
import re
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.nn.initializers import constant, lecun_normal, zeros

from vitzoo.errors import Refused
from vitzoo.nn import attention, embeddings, mlp, norms, pooling, positions, stack
from vitzoo.nn.attention import Places
from vitzoo.nn.dense import Dense
from vitzoo.nn.embeddings import PatchEmbedding
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.nn.pooling import AttentionPooling
from vitzoo.nn.positions import Learned1D, Learned2D, sincos2d
from vitzoo.nn.relative import RelativeBias, RelativeEmbedding, resize_bias, resize_embedding
from vitzoo.nn.rotary import axial_rotation
from vitzoo.nn.stack import Block, Stack
from vitzoo.nn.stochastic import dropout, fold, kept_patches
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
"""Sizes; a variant is a size and a patch, `S/16`, and any patch goes with any size."""

PUBLISHED = ["s/28", "s/16", "S/32", "Ti/16", "B/32", "S/16", "B/28", "B/16", "L/32", "L/16", "H/14", "g/14", "G/14"]
"""Variants that papers report on."""

POSITIONS = ("none", "learned1d", "learned2d", "sincos2d", "relative", "relative_bias", "rotary")

Size = int | tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Config:
    """What a ViT is. Sizes and grids are (height, width), or one number for both."""

    patch_size: Size = setting(16, "pixels of a patch", minimum=1)
    width: int = setting(384, "size of a token", minimum=1)
    depth: int = setting(12, "number of blocks", minimum=1)
    mlp_dim: int = setting(1536, "size between the two layers of a block's MLP", minimum=1)
    num_heads: int = setting(6, "attention heads; divides width", minimum=1)
    num_classes: int | None = setting(None, "outputs of the head; none: from the data; 0: no head", minimum=0)
    image_size: Size | None = setting(None, "pixels; none: from the data, else 224", minimum=1)
    channels: int | None = setting(None, "of an image; none: from the data, else 3", minimum=1)
    pooling: str = setting("cls", "what the head sees: class token, average, attention", choices=("cls", "gap", "map"))
    class_token: bool | None = setting(None, "whether there is one; none: when pooling is cls")
    registers: int = setting(0, "extra tokens that are thrown away (https://arxiv.org/abs/2309.16588)", minimum=0)
    positions: str = setting("learned1d", "how a token knows its place", choices=POSITIONS)
    rotary_base: float = setting(100.0, "slowest rotary angle, about one turn in 2 pi * base patches", above=1)
    position_resize: str = setting("corner_linear", "how positions go to another grid", choices=positions.METHODS)
    position_antialias: bool = setting(False, "smooth bilinear and bicubic when the grid shrinks")
    layer_scale: float | None = setting(None, "initial factor of each branch; none: left out", above=0)
    qk_norm: bool = setting(False, "LayerNorm on queries and keys")
    dropout: float = setting(0.0, "after embedding, attention and in the MLP", minimum=0, below=1)
    attention_dropout: float = setting(0.0, "on the attention weights", minimum=0, below=1)
    drop_path: float = setting(0.0, "stochastic depth: rate of the last block", minimum=0, below=1)
    drop_path_schedule: str = setting("linear", "rate over depth, from 0 or constant", choices=("linear", "uniform"))
    patch_dropout: float = setting(0.0, "share of the patches left out in training", minimum=0, below=1)
    pre_logits: bool | int = setting(False, "a tanh layer before the head; a number is its width", minimum=0)
    gelu: str = setting("tanh", "Google's code has tanh, timm exact", choices=("tanh", "exact"))
    norm_epsilon: float = setting(1e-6, "added to the variance", above=0)
    norm_after_pooling: bool = setting(False, "final norm after pooling instead of before")
    head_bias_init: float = setting(0.0, "bias of the head; about -log(classes) with a sigmoid loss")

    @classmethod
    def from_variant(cls, variant: str, **changes: Any) -> "Config":
        """`Config.from_variant("S/16", num_classes=10)`.

        Raises:
            Refused: the variant is unknown, or the fields don't fit together.
        """
        return cls(**{**variant_fields(variant), **changes})

    def __post_init__(self):
        self.check()

    def check(self) -> None:
        """Refuses fields that don't fit together."""
        if self.width % self.num_heads:
            raise Refused("num_heads", self.num_heads, f"does not divide width {self.width} {_divisors(self)}")
        if self.image_size is not None:
            self._check_grid()
        unit, why = self._width_unit()
        if self.width % unit:
            nearest = f"(nearest: {self.width // unit * unit or unit}, {self.width // unit * unit + unit})"
            raise Refused("width", self.width, f"must be a multiple of {unit} for {why} {nearest}")
        if self.pooling == "cls" and self.class_token is False:
            raise Refused("class_token", False, "pooling=cls needs it; take pooling gap or map")

    def _width_unit(self) -> tuple[int, str]:
        head = {"rotary": 4 * self.num_heads, "learned2d": 2, "sincos2d": 4}
        return head.get(self.positions, 1), f"positions={self.positions} with {self.num_heads} heads"

    def _check_grid(self) -> None:
        for size, patch in zip(self.image_shape, self.patch_shape, strict=True):
            if size % patch:
                near = sorted({max(size // patch, 1) * patch, (size // patch + 1) * patch})
                choices = ", ".join(map(str, near))
                raise Refused("image_size", size, f"does not divide by patch_size {patch} (nearest: {choices})")

    @property
    def patch_shape(self) -> tuple[int, int]:
        """Height and width of a patch, in pixels."""
        return _pair(self.patch_size)

    @property
    def image_shape(self) -> tuple[int, int]:
        """Height and width of an image, in pixels; 224 where nothing is set."""
        return _pair(224 if self.image_size is None else self.image_size)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image_shape[0] // self.patch_shape[0], self.image_shape[1] // self.patch_shape[1]

    @property
    def patches(self) -> int:
        """Number of patches."""
        return self.grid[0] * self.grid[1]

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
        """Size of a head."""
        return self.width // self.num_heads

    @property
    def drop_path_rates(self) -> np.ndarray:
        """[depth], the rate of each block; `linear` runs from 0 to `drop_path`, which a single block gets whole."""
        uniform = self.drop_path_schedule == "uniform" or self.depth == 1
        return np.linspace(self.drop_path if uniform else 0, self.drop_path, self.depth, dtype=np.float32)

    @property
    def stochastic(self) -> bool:
        """Whether training draws random numbers inside the model."""
        return any((self.dropout, self.attention_dropout, self.drop_path, self.patch_dropout))


class ViT(nnx.Module):
    """A Vision Transformer: float images [batch, height, width, channels] to float32 logits [batch, classes].

    Args:
        config: what it is.
        rngs: for the initial parameters.
        execution: how it is computed.

    Raises:
        Refused: the image doesn't divide into patches.
    """

    Config = Config
    VARIANTS = VARIANTS
    PUBLISHED = PUBLISHED
    SHARDING_RULES: ClassVar = (
        (r"class_token|registers", (None, None, "embed")),
        (r"pre_logits/kernel", ("embed", None)),
        (r"head/kernel", ("embed", "classes")),
        (r"head/bias", ("classes",)),
        (r"pre_logits/bias", (None,)),
        *embeddings.RULES,
        *positions.RULES,
        *pooling.RULES,
        *norms.RULES,
        *attention.RULES,
        *mlp.RULES,
        *stack.RULES,
    )

    def __init__(self, config: Config, *, rngs: nnx.Rngs, execution: Execution = DEFAULT):
        config._check_grid()
        self.config, self.execution = config, execution
        c, parts = config, {"rngs": rngs, "execution": execution}
        self.patch_embedding = PatchEmbedding(c.patch_shape, c.channels or 3, c.width, **parts)
        self.class_token = nnx.Param(jnp.zeros((1, 1, c.width))) if c.has_class_token else None
        self.registers = _registers(c, rngs) if c.registers else None
        self.positions = _positions(c, rngs)
        norm = LayerNorm(c.width, epsilon=c.norm_epsilon, execution=execution)
        self.encoder = Stack(
            c.depth, lambda rngs: _block(c, rngs, execution), norm=None if c.norm_after_pooling else norm, **parts
        )
        self.pool = _attention_pooling(c, parts) if c.pooling == "map" else None
        self.head_norm = norm if c.norm_after_pooling else None
        exact = dataclasses.replace(execution, dtype="float32")
        size = c.width if c.pre_logits is True else int(c.pre_logits)
        self.pre_logits = Dense(c.width, size, kernel_init=lecun_normal(), rngs=rngs, execution=exact) if size else None
        self.head = (
            Dense(
                size or c.width,
                c.num_classes,
                kernel_init=zeros,
                bias_init=constant(c.head_bias_init),
                rngs=rngs,
                execution=exact,
            )
            if c.num_classes
            else None
        )

    def __call__(self, images: jax.Array, *, train: bool = False, key: jax.Array | None = None) -> jax.Array:
        """Logits [batch, classes] in float32; without a head, what it would see [batch, width].

        Args:
            images: [batch, height, width, channels], floats scaled as the weights were trained.
            train: whether dropout, stochastic depth and patch dropout act.
            key: the source of their randomness; needed when `train` is set and one of them is on.

        Raises:
            Refused: images of another size or type, or no key in training.
        """
        seen = self._run(images, key=self._key(train, key))
        return seen["pooled"] if self.head is None else seen["logits"]

    def features(
        self, images: jax.Array, *, attention: bool = False, train: bool = False, key: jax.Array | None = None
    ) -> dict[str, jax.Array]:
        """Everything seen on the way, by name.

        Args:
            images, train, key: as for a call.
            attention: add every layer's attention weights.

        Returns:
            `embedded` [batch, tokens, width], what the first block gets; `block_0`, ..., what each block made of it;
            `tokens`, after the final norm, where it comes before pooling; `pooled` [batch, width], what the head gets;
            `logits`, where there is a head; with `attention`, `attention` [depth, batch, heads, tokens, tokens] and,
            where a probe pools, `pool_attention` [batch, heads, 1, patches]. Tokens are class token, registers, patches.
        """
        return self._run(images, key=self._key(train, key), features=True, weights=attention)

    def _key(self, train: bool, key: jax.Array | None) -> jax.Array | None:
        if train and key is None and self.config.stochastic:
            raise Refused("key", None, "training with dropout, drop_path or patch_dropout needs one (jax.random.key)")
        return key if train else None

    def _run(self, images, *, key, features=False, weights=False) -> dict[str, jax.Array]:
        tokens, places = self._embed(images, key)
        drop = jnp.asarray(self.config.drop_path_rates) if self.config.drop_path else None
        run = self.encoder(tokens, fold(key, 2), drop, features=features, weights=weights, places=places)
        pooled, pool_attention = self._pool(run.tokens, weights)
        seen = {"embedded": tokens, "tokens": run.tokens, "pooled": pooled}
        if run.blocks is not None:
            seen |= {f"block_{index}": run.blocks[index] for index in range(self.config.depth)}
        if self.head is not None:
            seen["logits"] = self.head(pooled)
        more = {"attention": run.attention, "pool_attention": pool_attention}
        return seen | {name: value for name, value in more.items() if value is not None}

    def _embed(self, images: jax.Array, key: jax.Array | None) -> tuple[jax.Array, Places]:
        """The tokens before the first block, and where they stand."""
        c = self.config
        _check_images(images, c)
        x = self.patch_embedding(images)
        added = self._added_positions()
        prefix = self._prefix(added, c)
        x = x if added is None else x + added[:, -c.patches :].astype(x.dtype)
        places, rotation = jnp.arange(c.patches)[None], None
        if c.positions == "rotary":
            rotation = axial_rotation(c.grid, c.prefix_tokens, c.head_dim, c.rotary_base)
        if key is not None and c.patch_dropout:
            places = kept_patches(c.patch_dropout, fold(key, 0), len(x), c.patches)
            x = jnp.take_along_axis(x, places[:, :, None], axis=1)
            rotation = rotation and tuple(_kept(angles[0], places, c.prefix_tokens) for angles in rotation)
        prefix = [jnp.broadcast_to(token.astype(x.dtype), (len(x), *token.shape[1:])) for token in prefix]
        x = jnp.concatenate([*prefix, x], axis=1) if prefix else x
        return dropout(x, c.dropout, fold(key, 1)), Places(rotation, places)

    def _added_positions(self) -> jax.Array | None:
        if self.config.positions == "sincos2d":
            return jnp.asarray(sincos2d(self.config.grid, self.config.width))
        return None if self.positions is None else self.positions()

    def _prefix(self, added: jax.Array | None, c: Config) -> list[jax.Array]:
        """Class token, with its own row of learned1d positions, and registers, each [1, tokens, width]."""
        prefix = []
        if self.class_token is not None:
            row = added[:, :1] if added is not None and added.shape[1] > c.patches else 0
            prefix.append(self.class_token[...] + row)
        return prefix if self.registers is None else [*prefix, self.registers[...]]

    def _pool(self, tokens: jax.Array, weights: bool) -> tuple[jax.Array, jax.Array | None]:
        """What the head gets, float32 [batch, width], and the probe's weights where asked for."""
        c, seen = self.config, None
        patches = tokens[:, c.prefix_tokens :]
        if self.pool is not None:
            x, seen = self.pool(patches, weights=weights)
        else:
            x = tokens[:, 0] if c.pooling == "cls" else pooling.mean(patches)
        x = x if self.head_norm is None else self.head_norm(x)
        x = x.astype(jnp.float32)
        return x if self.pre_logits is None else jnp.tanh(self.pre_logits(x)), seen


def variant_fields(variant: str) -> dict[str, int]:
    """The fields of `Config` that a variant fixes: `S/16` is a size and a patch.

    Raises:
        Refused: no such variant; the nearest is named.
    """
    size, _, patch = str(variant).partition("/")
    if size in VARIANTS and re.fullmatch("[1-9][0-9]*", patch):
        return {**VARIANTS[size], "patch_size": int(patch)}
    near = difflib.get_close_matches(str(variant), [f"{name}/16" for name in VARIANTS] + PUBLISHED, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise Refused("variant", variant, f"no such variant; {hint}Sizes {', '.join(VARIANTS)}, then /PATCH in pixels")


def resize_positions(params: dict[str, Any], old: Config, new: Config) -> dict[str, Any]:
    """Parameters of a model with config `old` with their positions fitted to the grid of `new`, by `new`'s method.

    Nothing happens where the grids are equal. Fixed and rotary positions have no parameters to resize.
    """
    if old.grid == new.grid:
        return params
    how = {"method": new.position_resize, "antialias": new.position_antialias}
    flat = flatten(params)
    for path, leaf in flat.items():
        match path.split("/"):
            case ["positions", "embedding"]:
                flat[path] = positions.resize_table(leaf, old.grid, new.grid, int(old.has_class_token), **how)
            case ["positions", "x" | "y" as axis]:
                size = new.grid[1 if axis == "x" else 0]
                flat[path] = positions.resize_axis(leaf, size, 0, **how).astype(leaf.dtype)
            case [*_, "relative", "table"]:
                flat[path] = resize_bias(leaf, new.grid, new.position_resize)
            case [*_, "relative", "embedding"]:
                flat[path] = resize_embedding(leaf, new.patches, new.position_resize)
    return unflatten(flat)


def _block(c: Config, rngs: nnx.Rngs, execution: Execution) -> Block:
    relative: nnx.Module | None = None
    if c.positions == "relative":
        relative = RelativeEmbedding(c.patches, c.head_dim, rngs=rngs)
    elif c.positions == "relative_bias":
        relative = RelativeBias(c.grid, c.num_heads)
    return Block(
        c.width,
        c.mlp_dim,
        c.num_heads,
        gelu=c.gelu,
        qk_norm=c.qk_norm,
        layer_scale=c.layer_scale,
        dropout=c.dropout,
        attention_dropout=c.attention_dropout,
        norm_epsilon=c.norm_epsilon,
        relative=relative,
        rngs=rngs,
        execution=execution,
    )


def _positions(c: Config, rngs: nnx.Rngs) -> Learned1D | Learned2D | None:
    if c.positions == "learned1d":
        return Learned1D(int(c.has_class_token) + c.patches, c.width, rngs=rngs)
    return Learned2D(c.grid, c.width, rngs=rngs) if c.positions == "learned2d" else None


def _registers(c: Config, rngs: nnx.Rngs) -> nnx.Param:
    return nnx.Param(0.02 * jax.random.normal(rngs.params(), (1, c.registers, c.width)))


def _attention_pooling(c: Config, parts: dict[str, Any]) -> AttentionPooling:
    return AttentionPooling(c.width, c.mlp_dim, c.num_heads, gelu=c.gelu, norm_epsilon=c.norm_epsilon, **parts)


def _kept(angles: jax.Array, places: jax.Array, prefix: int) -> jax.Array:
    """Rotary angles [tokens, pairs] of the patches that stayed, [batch, prefix + kept, pairs]."""
    first = jnp.broadcast_to(angles[:prefix], (len(places), prefix, angles.shape[1]))
    return jnp.concatenate([first, angles[prefix:][places]], axis=1)


def _check_images(images: jax.Array, c: Config) -> None:
    wanted = (*c.image_shape, c.channels or 3)
    if images.ndim != 4 or images.shape[1:] != wanted:
        raise Refused("images", images.shape, "[batch, height, width, channels], the last three " + str(wanted))
    if not jnp.issubdtype(images.dtype, jnp.floating):
        raise Refused(
            "images", images.dtype, "floats, scaled as the weights were trained (preprocessing in model.json)"
        )


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _divisors(c: Config) -> str:
    every = [n for n in range(1, c.width + 1) if c.width % n == 0]
    below, above = [n for n in every if n < c.num_heads], [n for n in every if n > c.num_heads]
    return f"(nearest: {', '.join(str(n) for n in below[-1:] + above[:1])})"
