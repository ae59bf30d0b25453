"""The Vision Transformer (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929).

An image is cut into patches and a linear map makes each a token; a class token goes before them; positions are added;
a Transformer encoder mixes and transforms the tokens; one of them, or their average, goes through a linear head.

What the tokens before the patches get under each kind of positions: `learned1d` has a row for the class token, as in
the paper, unless `prefix_positions` says otherwise; `learned2d` and `sincos2d` add nothing to them; under `relative`
and `relative_bias` pairs with such a token get nothing; under `rotary` such a token doesn't turn.
"""

import dataclasses
from collections.abc import Collection
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import constant, lecun_normal, normal, zeros

from vitzoo.errors import UserError
from vitzoo.models.base import EMBEDDINGS
from vitzoo.models.vit_config import ALIASES, PUBLISHED, VARIANTS, ViTConfig
from vitzoo.models.vit_weights import TRANSFER, resize_positions
from vitzoo.nn import attention, embeddings, mlp, norms, pooling, positions, stack, state
from vitzoo.nn.attention import Attention, Places
from vitzoo.nn.capture import Captured, Capturing, Outputs, check, returned
from vitzoo.nn.dense import Dense
from vitzoo.nn.embeddings import PatchEmbedding
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.pooling import AttentionPooling
from vitzoo.nn.positions import Learned1D, Learned2D, SinCos2D, axial_rotation
from vitzoo.nn.relative import RelativeBias, RelativeEmbedding
from vitzoo.nn.stack import Block, Stack
from vitzoo.nn.stochastic import dropout, fold, kept_patches, kept_tokens

Config = ViTConfig


class ViT(Capturing, nnx.Module):
    """A Vision Transformer: float images [batch, height, width, channels] to float32 logits [batch, classes].

    Args:
        config: what it is.
        rngs: for the initial parameters.
        execution: how it is computed.

    Raises:
        UserError: fields of the config don't fit together.
    """

    Config = ViTConfig
    VARIANTS = VARIANTS
    PUBLISHED = PUBLISHED
    ALIASES = ALIASES
    EMBEDDINGS = rf"{EMBEDDINGS}|registers"
    TRANSFER = TRANSFER
    INPUTS: ClassVar = {"image": "image", "row_keys": "key"}
    SHARDING_RULES: ClassVar = (
        (r"class_token|distillation_token|registers", (None, None, "embed")),
        (r"pre_logits/kernel", ("embed", None)),
        (r"(distillation_)?head/kernel", ("embed", "classes")),
        (r"(distillation_)?head/bias", ("classes",)),
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
        norm = partial(LayerNorm, epsilon=c.norm_epsilon)
        patch_norm = partial(norm, execution=execution) if c.patch_norms else None
        self.patch_embedding = PatchEmbedding(
            c.patch_shape, c.image_shape[2], c.width, bias=c.patch_bias, norm=patch_norm, **parts
        )
        self.class_token = nnx.Param(jnp.zeros((1, 1, c.width))) if c.has_class_token else None
        self.distillation_token = nnx.Param(jnp.zeros((1, 1, c.width))) if c.distillation != "none" else None
        self.registers = nnx.Param(normal(0.02)(rngs.params(), (1, c.registers, c.width))) if c.registers else None
        self.positions = _positions(c, rngs)
        self.embedding_norm = norm(c.width, execution=execution) if c.embedding_norm else None
        # encoder
        last = None if c.norm_after_pooling else norm(c.width, execution=execution)
        self.encoder = Stack(c.depth, partial(_block, c, execution), norm=last, **parts)
        # output, from here on in float32
        how: Any = {"activation": f"gelu_{c.gelu}", "norm_epsilon": c.norm_epsilon, **exact}
        self.pool = AttentionPooling(c.width, c.mlp_dim, c.num_heads, **how) if c.pooling == "map" else None
        self.head_norm = norm(c.pooled_size, execution=exact["execution"]) if c.norm_after_pooling else None
        hidden = c.width if c.pre_logits is True else int(c.pre_logits)
        self.pre_logits = Dense(c.pooled_size, hidden, kernel_init=lecun_normal(), **exact) if hidden else None
        inits: Any = {"kernel_init": zeros, "bias_init": constant(c.head_bias_init)}
        head = partial(Dense, hidden or c.pooled_size, c.num_classes or 0, **inits, **exact)
        self.head = head() if c.num_classes else None
        self.distillation_head = head() if c.num_classes and c.distillation == "head" else None

    @property
    def captures(self) -> tuple[str, ...]:
        """The names that `capture` knows."""
        more = (*(() if self.head is None else ("logits",)), *(() if self.pool is None else ("pool_attention",)))
        return ("embedded", *self.encoder.captures, "tokens", "pooled", *more)

    def __call__(
        self,
        images: jax.Array,
        *,
        capture: Collection[str] = (),
        train: bool = False,
        key: jax.Array | None = None,
        row_keys: jax.Array | None = None,
    ) -> Outputs:
        """Logits [batch, classes] in float32; without a head, what it would see, [batch, width]. With `capture`,
        `(logits, captured)`.

        Args:
            images: [batch, height, width, channels], floats scaled as the weights were trained. Positions are fitted to
                images of another size than the config's, as they are when weights are loaded for it.
            capture: what else to give, by name. Tokens stand in the order class, distillation, registers, patches.
                `embedded` [batch, tokens, width], what the first block gets; `blocks` [depth, batch, tokens, width],
                what each made of it; `attention` [depth, batch, heads, tokens, tokens]; `tokens`, after the final norm
                where that comes before pooling; `pooled` [batch, width], what the head gets (twice the width under
                `cls_gap`; the mean of what two heads get); `logits` where there is a head; where a probe pools,
                `pool_attention` [batch, heads, 1, patches].
            train: whether dropout, stochastic depth and patch dropout act.
            key: the source of their randomness.
            row_keys: [batch], each image's own, for the patches that it loses; made of `key` by default.

        Raises:
            UserError: images that the patch size doesn't divide, of other channels or of another type, a name that
                `capture` doesn't know, or no key where training needs one.
        """
        capture = check(capture, self.captures)
        seen = self._run(images, self._key(train, key), row_keys, capture)
        return returned(seen["pooled" if self.head is None else "logits"], seen, capture)

    def tokens(
        self,
        images: jax.Array,
        patches: jax.Array | None = None,
        *,
        train: bool = False,
        key: jax.Array | None = None,
        row_keys: jax.Array | None = None,
    ) -> jax.Array:
        """The encoder's tokens, `features(images)["tokens"]`, as though no patches were there but some.

        Args:
            images, train, key, row_keys: as for a call.
            patches: those that are seen, in raster order from 0: [batch, seen], different ones in each row. By default
                all that patch dropout leaves.

        Returns:
            [batch, tokens, width] in the order class, distillation, registers, patches (as in `patches`).
        """
        return self._run(images, self._key(train, key), row_keys, patches=patches)["tokens"]

    def logits_by_head(
        self,
        images: jax.Array,
        *,
        train: bool = False,
        key: jax.Array | None = None,
        row_keys: jax.Array | None = None,
    ) -> tuple[jax.Array, ...]:
        """The logits [batch, classes] of the head, then, with `distillation=head`, those of the distillation token's.

        Args:
            images, train, key, row_keys: as for a call, which gives their mean.
        """
        tokens = self._run(images, self._key(train, key), row_keys)["tokens"]
        return self._by_head(*self._pool(tokens, weights=False)[0])

    def _key(self, train: bool, key: jax.Array | None) -> jax.Array | None:
        if train and key is None and self.config.random:
            raise UserError("key", None, "training with dropout, drop_path or patch_dropout needs one (jax.random.key)")
        return key if train else None

    def _run(self, images, key, row_keys=None, capture=frozenset(), patches=None) -> Captured:
        if (config := self.config.of_images(images)) is not self.config:
            return self._fitted(config)._run(images, key, row_keys, capture, patches)
        embedded, places = self._embed(images, fold(key, 0), row_keys, patches)
        rates, known = self.config.drop_path_rates, self.encoder.captures
        run = self.encoder(embedded, fold(key, 1), rates, capture=capture.intersection(known), places=places)
        for_heads, pool_attention = self._pool(run.tokens, "pool_attention" in capture)
        seen = {"embedded": embedded, **run.captured, "tokens": run.tokens, "pooled": _mean(for_heads)}
        seen |= {} if self.head is None else {"logits": _mean(self._by_head(*for_heads))}
        return seen | ({} if pool_attention is None else {"pool_attention": pool_attention})

    def _fitted(self, config: ViTConfig) -> "ViT":
        """This model for images of another size."""
        graph, params = state.split(self)
        fitted = state.merge(graph, resize_positions(params, self.config, config))
        fitted.config = config
        if isinstance(fitted.positions, SinCos2D):
            fitted.positions.grid = config.grid
        return fitted

    def _embed(
        self,
        images: jax.Array,
        key: jax.Array | None,
        row_keys: jax.Array | None = None,
        seen: jax.Array | None = None,
    ) -> tuple[jax.Array, Places]:
        """The tokens before the first block, those of the patches that are `seen`, and where they stand."""
        c = self.config
        x = self.patch_embedding(c.padded(images))
        late = None if c.prefix_positions == "all" else self.registers  # after positions are added: they have none
        first = (self.class_token, self.distillation_token, self.registers if late is None else None)
        if before := [tokens[...] for tokens in first if tokens is not None]:
            x = _insert(x, 0, jnp.concatenate(before, axis=1))
        if self.positions is not None:
            added = self.positions()
            x = x + jnp.pad(added, ((0, 0), (x.shape[1] - added.shape[1], 0), (0, 0))).astype(x.dtype)
        if late is not None:
            x = _insert(x, c.prefix_tokens - c.registers, late[...])
        x = x if self.embedding_norm is None else self.embedding_norm(x)
        patches, rotation = jnp.arange(c.patches)[None], None
        if c.positions == "rotary":
            rotation = axial_rotation(c.grid, c.prefix_tokens, c.head_size, c.rotary_base)
        if seen is None and key is not None and c.patch_dropout:
            own = jax.random.split(jax.random.fold_in(key, 0), len(x)) if row_keys is None else row_keys
            seen = kept_patches(c.patch_dropout, own, c.patches)
        if seen is not None:
            patches = seen
            x, rotation = kept_tokens((x, rotation), patches, c.prefix_tokens)
        return dropout(x, c.dropout, fold(key, 1)), Places(rotation, patches)

    def _pool(self, tokens: jax.Array, weights: bool) -> tuple[tuple[jax.Array, ...], jax.Array | None]:
        """What each head gets, float32 [batch, size], and the probe's weights where asked for."""
        c, seen = self.config, None
        patches = tokens[:, 0 if c.pool_include_prefix else c.prefix_tokens :]
        if self.pool is not None:
            x, seen = self.pool(patches, weights=weights)
            pooled = [x]
        elif c.pooling == "gap":
            pooled = [pooling.mean(patches)]
        elif c.pooling == "cls_gap":
            pooled = [jnp.concatenate([tokens[:, 0].astype(jnp.float32), pooling.mean(patches)], axis=-1)]
        else:
            pooled = [tokens[:, place] for place in range(2 if c.distillation == "head" else 1)]
        return tuple(self._finish(x.astype(jnp.float32)) for x in pooled), seen

    def _finish(self, x: jax.Array) -> jax.Array:
        """The final norm, where it comes after pooling, and the layer before the head."""
        x = x if self.head_norm is None else self.head_norm(x)
        return x if self.pre_logits is None else jnp.tanh(self.pre_logits(x))

    def _by_head(self, *for_heads: jax.Array) -> tuple[jax.Array, ...]:
        heads = [head for head in (self.head, self.distillation_head) if head is not None]
        return tuple(head(x) for head, x in zip(heads, for_heads, strict=True))


def _mean(parts: tuple[jax.Array, ...]) -> jax.Array:
    return parts[0] if len(parts) == 1 else sum(parts[1:], parts[0]) / len(parts)


def _positions(c: ViTConfig, rngs: nnx.Rngs) -> nnx.Module | None:
    """What is added to the tokens."""
    if c.positions == "learned1d":
        return Learned1D(c.placed_prefix + c.patches, c.width, std=c.position_std, rngs=rngs)
    if c.positions == "learned2d":
        return Learned2D(c.grid, c.width, rngs=rngs)
    return SinCos2D(c.grid, c.width) if c.positions == "sincos2d" else None


def _block(c: ViTConfig, execution: Execution, rngs: nnx.Rngs) -> Block:
    relative: nnx.Module | None = None
    if c.positions == "relative":
        relative = RelativeEmbedding(c.patches, c.head_size, rngs=rngs)
    elif c.positions == "relative_bias":
        relative = RelativeBias(c.grid, c.num_heads, rngs=rngs)
    shared: Any = {"rngs": rngs, "execution": execution}
    return Block(
        width=c.width,
        attention=Attention(
            c.width,
            c.num_heads,
            head_dim=c.head_dim,
            bias=c.qkv_bias,
            out_bias=c.out_bias,
            qk_norm=c.qk_norm,
            qk_norm_bias=c.qk_norm_bias,
            dropout=c.attention_dropout,
            norm_epsilon=c.norm_epsilon,
            relative=relative,
            **shared,
        ),
        mlp=MLP(
            c.width,
            c.mlp_dim,
            activation="silu" if c.gated_mlp else f"gelu_{c.gelu}",
            gated=c.gated_mlp,
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
    more = jnp.broadcast_to(tokens.astype(x.dtype), (x.shape[0], *tokens.shape[1:]))
    return jnp.concatenate([x[:, :at], more, x[:, at:]], axis=1)
