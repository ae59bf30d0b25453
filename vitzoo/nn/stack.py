"""The Transformer's block, and a stack of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

from vitzoo.nn import state
from vitzoo.nn.attention import NOWHERE, Attention, Places
from vitzoo.nn.constrain import constrain
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.stochastic import drop_path, dropout, fold

RULES = ((r".*/scale[12]", (None,)),)
"""Logical axes of the parameters here, for one layer."""


class Block(nnx.Module):
    """Attention mixes the tokens, an MLP transforms each; both are added to what came in.

    Args:
        pre_norm: norm before each part (ViT, GPT-2, T5); after each sum otherwise (2017, GPT-1, BERT).
        layer_scale: initial factor of each part's output (https://arxiv.org/abs/2103.17239); None leaves it out.
        dropout: rate after attention and in the MLP.
        attention_dropout: rate on the attention weights.
        relative: see `Attention`.
    """

    def __init__(
        self,
        width: int,
        mlp_dim: int,
        num_heads: int,
        *,
        pre_norm: bool = True,
        gelu: str = "tanh",
        qk_norm: bool = False,
        layer_scale: float | None = None,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        norm_epsilon: float = 1e-6,
        relative: nnx.Module | None = None,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        self.pre_norm, self.dropout = pre_norm, dropout
        self.norm1 = LayerNorm(width, epsilon=norm_epsilon, execution=execution)
        self.attention = Attention(
            width,
            num_heads,
            qk_norm=qk_norm,
            dropout=attention_dropout,
            norm_epsilon=norm_epsilon,
            relative=relative,
            rngs=rngs,
            execution=execution,
        )
        self.norm2 = LayerNorm(width, epsilon=norm_epsilon, execution=execution)
        self.mlp = MLP(width, mlp_dim, gelu=gelu, dropout=dropout, rngs=rngs, execution=execution)
        self.scale1 = None if layer_scale is None else nnx.Param(jnp.full(width, layer_scale))
        self.scale2 = None if layer_scale is None else nnx.Param(jnp.full(width, layer_scale))

    def __call__(
        self,
        x: jax.Array,
        key: jax.Array | None = None,
        drop: jax.Array | None = None,
        *,
        bias: jax.Array | None = None,
        mask: jax.Array | None = None,
        places: Places = NOWHERE,
        weights: bool = False,
    ) -> tuple[jax.Array, jax.Array | None]:
        """The tokens and, where asked for, the attention weights.

        Args:
            x: [batch, tokens, width].
            key: for every draw of the block; None is evaluation.
            drop: this block's rate of stochastic depth; None is off.
            bias, mask, places, weights: see `Attention`.
        """
        y = self.norm1(x) if self.pre_norm else x
        y, seen = self.attention(y, bias=bias, mask=mask, places=places, key=fold(key, 0), weights=weights)
        y = dropout(y, self.dropout, fold(key, 1))
        x = self._add(x, y, self.norm1, self.scale1, drop, fold(key, 2))
        y = self.mlp(self.norm2(x) if self.pre_norm else x, fold(key, 3))
        return self._add(x, y, self.norm2, self.scale2, drop, fold(key, 4)), seen

    def _add(self, x, y, norm, scale, drop, key) -> jax.Array:
        y = y if scale is None else y * scale[...].astype(y.dtype)
        y = y if drop is None else drop_path(y, drop, key)
        x = constrain(x + y, ("batch", "tokens", None))
        return x if self.pre_norm else norm(x)


class Run(NamedTuple):
    """What a stack made of its tokens. With a leading axis of depth, or None where not asked for:"""

    tokens: jax.Array
    blocks: jax.Array | None  # [depth, batch, tokens, width], after each block
    attention: jax.Array | None  # [depth, batch, heads, tokens, tokens]


class Stack(nnx.Module):
    """`depth` blocks stored as one, every parameter with a leading axis of `depth`, and the norm after them.

    Args:
        make: one block from its random keys.
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
        self.blocks = state.stacked(make, depth, rngs)
        self.norm = norm

    def __call__(
        self,
        x: jax.Array,
        key: jax.Array | None = None,
        drop: np.ndarray | jax.Array | None = None,
        *,
        features: bool = False,
        weights: bool = False,
        **shared: Any,
    ) -> Run:
        """Runs the blocks as `execution` says; the result doesn't depend on it.

        Args:
            x: [batch, tokens, width].
            key: of all draws; None is evaluation.
            drop: [depth] rates of stochastic depth; None is off.
            features: keep the tokens after each block.
            weights: keep each layer's attention weights.
            shared: what every block is called with.
        """
        graph, layers = state.split(self.blocks)

        def body(x, layer):
            params, index, rate = layer
            x, seen = state.merge(graph, params)(x, fold(key, index), rate, weights=weights, **shared)
            return x, (x if features else None, seen)

        rates = None if key is None or drop is None else jnp.asarray(drop)
        x, (blocks, attention) = self._loop(self._remat(body), x, (layers, jnp.arange(self.depth), rates))
        return Run(x if self.norm is None else self.norm(x), blocks, attention)

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
