"""The Transformer's block, and a stack of them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

from vitzoo.nn import state
from vitzoo.nn.attention import NOWHERE, Attention, AttentionOutput, KeyValues, Places
from vitzoo.nn.capture import Captured, check
from vitzoo.nn.constrain import constrain
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import MLP
from vitzoo.nn.stochastic import drop_path, dropout, fold

RULES = ((r".*/scale[12]", (None,)),)
"""Logical axes of the parameters here, for one layer."""


class KVCache(NamedTuple):
    """What a decoder's block keeps of the tokens before: those of the text so far, and the encoder's."""

    past: KeyValues
    cross: KeyValues | None = None


class BlockOutput(NamedTuple):
    """What a block gives besides its tokens."""

    captured: Mapping[str, jax.Array] = {}  # what was asked for: `attention` [batch, heads, queries, keys] ...
    cache: KVCache | None = None


class Block(nnx.Module):
    """Attention mixes the tokens, an MLP transforms each; both are added to what came in.

    Args:
        attention: among the tokens.
        mlp: of each token.
        norm: makes one of the block's norms.
        cross_attention: a decoder's, to what an encoder made (`context`).
        pre_norm: norm before each part (ViT, GPT-2, T5); after each sum otherwise (2017, GPT-1, BERT).
        layer_scale: initial factor of each part's output (https://arxiv.org/abs/2103.17239); None leaves it out.
        dropout: rate after attention.
    """

    def __init__(
        self,
        *,
        width: int,
        attention: Attention,
        mlp: MLP,
        norm: Callable[[], nnx.Module],
        cross_attention: Attention | None = None,
        pre_norm: bool = True,
        layer_scale: float | None = None,
        dropout: float = 0.0,
    ):
        self.pre_norm, self.dropout = pre_norm, dropout
        self.norm1, self.attention = norm(), attention
        self.cross_norm: Any = None if cross_attention is None else norm()
        self.cross_attention = cross_attention
        self.norm2, self.mlp = norm(), mlp
        self.scale1 = None if layer_scale is None else nnx.Param(jnp.full(width, layer_scale))
        self.scale2 = None if layer_scale is None else nnx.Param(jnp.full(width, layer_scale))

    @property
    def captures(self) -> tuple[str, ...]:
        """The names that `capture` knows."""
        return ("attention",) if self.cross_attention is None else ("attention", "cross_attention")

    def __call__(
        self,
        x: jax.Array,
        key: jax.Array | None = None,
        drop: jax.Array | None = None,
        cache: KVCache | None = None,
        *,
        at: jax.Array | None = None,
        bias: jax.Array | None = None,
        mask: jax.Array | None = None,
        places: Places = NOWHERE,
        context: jax.Array | None = None,
        context_mask: jax.Array | None = None,
        capture: Collection[str] = (),
    ) -> tuple[jax.Array, BlockOutput]:
        """The tokens, and what else was asked for.

        Args:
            x: [batch, tokens, width].
            key: for every draw of the block; None is evaluation.
            drop: this block's rate of stochastic depth; None is off.
            cache: of the tokens before; x joins it `at` its places.
            at, bias, mask, places: see `Attention`.
            context: what the encoder made, [batch, source tokens, width]; not needed where the cache holds it.
            context_mask: true where a token may look at the context, [batch, 1, 1 or tokens, source tokens].
            capture: names of what to hand out, of `captures`.

        Raises:
            UserError: a name that isn't known.
        """
        capture = check(capture, self.captures)
        weights = "attention" in capture
        y = self.norm1(x) if self.pre_norm else x
        past = None if cache is None else cache.past
        attended = self.attention(
            y, cache=past, at=at, bias=bias, mask=mask, places=places, key=fold(key, 0), weights=weights
        )
        y = dropout(attended.tokens, self.dropout, fold(key, 1))
        x = self._add(x, y, self.norm1, self.scale1, drop, fold(key, 2))
        crossed = self._cross(x, cache, context, context_mask, key, "cross_attention" in capture)
        if crossed is not None:
            y = dropout(crossed.tokens, self.dropout, fold(key, 6))
            x = self._add(x, y, self.cross_norm, None, drop, fold(key, 7))
        y = self.mlp(self.norm2(x) if self.pre_norm else x, fold(key, 3))
        x = self._add(x, y, self.norm2, self.scale2, drop, fold(key, 4))
        kept = None if cache is None else KVCache(attended.keys_values, cache.cross)
        seen = {"attention": attended.weights, "cross_attention": None if crossed is None else crossed.weights}
        return x, BlockOutput({name: value for name, value in seen.items() if value is not None}, kept)

    def _cross(self, x, cache, context, mask, key, weights) -> AttentionOutput | None:
        if self.cross_attention is None:
            return None
        ready = None if cache is None else cache.cross
        keys_values = self.cross_attention.keys_values(context) if ready is None else ready
        y = self.cross_norm(x) if self.pre_norm else x
        return self.cross_attention(y, keys_values, mask=mask, key=fold(key, 5), weights=weights)

    def _add(self, x, y, norm, scale, drop, key) -> jax.Array:
        y = y if scale is None else y * scale[...].astype(y.dtype)
        y = y if drop is None else drop_path(y, drop, key)
        x = constrain(x + y, ("batch", "tokens", None))
        return x if self.pre_norm else norm(x)


class Run(NamedTuple):
    """What a stack made of its tokens; what is of each block has a leading axis of depth."""

    tokens: jax.Array
    captured: Captured
    """What was asked for: `blocks` [depth, batch, tokens, width], the tokens after each block; `attention` [depth,
    batch, heads, tokens, tokens]; `cross_attention` [depth, batch, heads, tokens, source tokens]."""
    cache: KVCache | None


class Stack(nnx.Module):
    """`depth` blocks stored as one, every parameter with a leading axis of `depth`, and the norm after them.

    Args:
        make: one block from its random keys: a `Block`, or one that is called alike and has `captures`.
        norm: the norm after the last block; None for a stack without.
    """

    def __init__(
        self,
        depth: int,
        make: Callable[[nnx.Rngs], nnx.Module],
        *,
        norm: nnx.Module | None = None,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        self.depth, self.execution = depth, execution
        self.blocks: Any = state.stacked(make, depth, rngs)
        self.norm = norm

    @property
    def captures(self) -> tuple[str, ...]:
        """The names that `capture` knows."""
        return ("blocks", *self.blocks.captures)

    def __call__(
        self,
        x: jax.Array,
        key: jax.Array | None = None,
        drop: np.ndarray | jax.Array | None = None,
        cache: KVCache | None = None,
        *,
        capture: Collection[str] = (),
        **shared: jax.Array | Places | None,
    ) -> Run:
        """Runs the blocks as `execution` says; the result doesn't depend on it.

        Args:
            x: [batch, tokens, width].
            key: of all draws; None is evaluation.
            drop: [depth] rates of stochastic depth; None is off.
            cache: of each block, with a leading axis of depth (`empty_cache`).
            capture: names of what to hand out, of `captures`.
            shared: what every block is called with.

        Raises:
            UserError: a name that isn't known.
        """
        capture = check(capture, self.captures)
        graph, layers = state.split(self.blocks)

        def body(x, layer):
            params, index, rate, cache = layer
            block = state.merge(graph, params)
            x, passed = block(x, fold(key, index), rate, cache, capture=capture - {"blocks"}, **shared)
            captured = {**passed.captured} | ({"blocks": x} if "blocks" in capture else {})
            return x, (captured, passed.cache, state.statistics(block))

        rates = None if key is None or drop is None else jnp.asarray(drop)
        layered = (layers, jnp.arange(self.depth), rates, cache)
        x, (captured, cache, statistics) = self._loop(self._remat(body), x, layered)
        state.update(self.blocks, statistics)
        return Run(x if self.norm is None else self.norm(x), captured, cache)

    def empty_cache(self, batch: int, length: int, context: jax.Array | None = None) -> KVCache:
        """Room for `length` tokens of each of `batch` rows, and what there is to know of the encoder's tokens.

        Args:
            context: what the encoder made, [batch, source tokens, width].
        """
        graph, layers = state.split(self.blocks)

        def one(params: Any) -> KVCache:
            block = state.merge(graph, params)
            shape = (batch, length, *block.attention.key.outputs)
            nothing = jnp.zeros(shape, self.execution.compute)
            cross = None if context is None else block.cross_attention.keys_values(context)
            return KVCache(KeyValues(nothing, nothing), cross)

        return jax.lax.map(one, layers)

    def _remat(self, body: Callable) -> Callable:
        if self.execution.remat == "none":
            return body
        dots = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        policy = dots if self.execution.remat == "dots" else None
        # inside a scan the loop itself keeps the compiler from merging the two computations
        return jax.checkpoint(body, policy=policy, prevent_cse=not self.execution.scan)

    def _loop(self, body: Callable, x: jax.Array, layers: Any) -> tuple[jax.Array, Any]:
        if self.execution.scan:
            return lax.scan(body, x, layers)
        leaves, tree = jax.tree.flatten(layers)
        # lax.split turns back into one concatenation; indexing would add `depth` arrays as large as the whole
        pieces = zip(*(lax.split(leaf, [1] * self.depth) for leaf in leaves), strict=True)
        made = []
        for piece in pieces:
            x, y = body(x, jax.tree.unflatten(tree, [leaf[0] for leaf in piece]))
            made.append(y)
        return x, jax.tree.map(lambda *layers: jnp.stack(layers), *made)
