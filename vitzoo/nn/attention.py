"""Attention: tokens take from each other what they ask for (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.nn.initializers import Initializer

from vitzoo.nn import relative
from vitzoo.nn.constrain import constrain
from vitzoo.nn.dense import XAVIER, Dense
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.positions import Rotation, rotate
from vitzoo.nn.stochastic import dropout

RULES = (
    (r".*/(query|key|value)/kernel", ("embed", "heads", "head_dim")),
    (r".*/(query|key|value)/bias", ("heads", "head_dim")),
    (r".*/out/kernel", ("heads", "head_dim", "embed")),
    (r".*/out/bias", (None,)),
    *relative.RULES,
)
"""Logical axes of the parameters here, for one layer."""

HEADS_OUT = re.compile(r"(.*/)?(query|key|value)/kernel")
"""Kernels of one input dimension, whose outputs are heads; of any other kernel the last dimension is the output."""

LOWEST = jnp.finfo(jnp.float32).min
QUERIES = ("batch", "tokens", "heads", None)
KEYS = ("batch", None, "heads", None)  # every query looks at all of them


def matrix_shape(path: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape [inputs, outputs] of the matrix that a kernel is; other parameters have their own.

    Args:
        path: of the parameter.
        shape: of one layer's, [width, heads, head_dim] of a query, [heads, head_dim, width] of the output.
    """
    if path.rpartition("/")[2] != "kernel" or len(shape) < 3:
        return tuple(shape)
    inputs = 1 if HEADS_OUT.fullmatch(path) else len(shape) - 1
    return math.prod(shape[:inputs]), math.prod(shape[inputs:])


class Places(NamedTuple):
    """Where the tokens stand, for the kinds of positions that act inside attention."""

    rotation: Rotation | None = None
    patches: jax.Array | None = None  # [1 or batch, patches], numbers in raster order


NOWHERE = Places()


class KeyValues(NamedTuple):
    """What queries look at: [batch, keys, kv_heads, head_dim] each."""

    key: jax.Array
    value: jax.Array


class AttentionOutput(NamedTuple):
    """What attention gives."""

    tokens: jax.Array  # [batch, queries, width]
    weights: jax.Array | None  # [batch, heads, queries, keys], where asked for; 0 where a query may not look
    keys_values: KeyValues  # what was looked at


class Attention(nnx.Module):
    """Multi-head attention: [batch, queries, width] to the same.

    Args:
        width: of the tokens in and out.
        num_heads: of the queries.
        num_kv_heads: of the keys and values, each shared by a group of queries' heads (grouped-query attention,
            https://arxiv.org/abs/2305.13245); as many as `num_heads` by default.
        head_dim: of each head; `width / num_heads` by default.
        bias: whether queries, keys and values have one.
        out_bias: whether the output has one; as the others by default.
        scale: of the logits; `head_dim ** -0.5` by default.
        qk_norm: LayerNorm over each head's queries and keys (https://arxiv.org/abs/2302.05442), with a bias where
            `qk_norm_bias`.
        dropout: rate on the attention weights.
        relative: a module that adds to the logits, called with the scaled query and the patches' places.
        query_init, kernel_init, out_init: of the query's, the key's and value's, and the output's kernel.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        scale: float | None = None,
        qk_norm: bool = False,
        qk_norm_bias: bool = False,
        dropout: float = 0.0,
        norm_epsilon: float = 1e-6,
        relative: nnx.Module | None = None,
        query_init: Initializer = XAVIER,
        kernel_init: Initializer = XAVIER,
        out_init: Initializer = XAVIER,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        heads = (num_heads, head_dim or width // num_heads)
        kv_heads = (num_kv_heads or num_heads, heads[1])
        self.scale = heads[1] ** -0.5 if scale is None else scale
        self.groups = num_heads // kv_heads[0]
        self.dropout, self.execution, self.relative = dropout, execution, relative
        dense = partial(Dense, rngs=rngs, execution=execution)
        self.query = dense(width, heads, bias=bias, kernel_init=query_init)
        self.key = dense(width, kv_heads, bias=bias, kernel_init=kernel_init)
        self.value = dense(width, kv_heads, bias=bias, kernel_init=kernel_init)
        self.out = dense(heads, width, bias=bias if out_bias is None else out_bias, kernel_init=out_init)
        norm = partial(LayerNorm, heads[1], epsilon=norm_epsilon, bias=qk_norm_bias, execution=execution)
        self.query_norm = norm() if qk_norm else None
        self.key_norm = norm() if qk_norm else None

    def __call__(
        self,
        x: jax.Array,
        keys_values: KeyValues | None = None,
        *,
        cache: KeyValues | None = None,
        at: jax.Array | None = None,
        bias: jax.Array | None = None,
        mask: jax.Array | None = None,
        places: Places = NOWHERE,
        key: jax.Array | None = None,
        weights: bool = False,
    ) -> AttentionOutput:
        """Each token looks at keys and values, by default at its own batch row's tokens.

        Args:
            x: [batch, queries, width].
            keys_values: from `keys_values`: cross-attention.
            cache: earlier tokens' keys and values with room for more, [batch, length, ...]; those of x are put into it
                `at` their places and the queries look at all of it, as far as `mask` lets them.
            at: [batch, queries], where in the cache.
            bias: added to the logits, broadcast to [batch, heads, queries, keys].
            mask: true where a query may look, broadcast alike.
            places: for rotary and relative positions.
            key: for dropout; None is off.
            weights: keep the attention weights.
        """
        query = self.query(x) if self.query_norm is None else self.query_norm(self.query(x))
        query = constrain(query, QUERIES)
        if places.rotation is not None:
            query = rotate(query, places.rotation)
        if keys_values is None:
            keys_values = self.keys_values(x, places)
            keys_values = keys_values if cache is None else _put(cache, keys_values, at)
        query = query * self.scale
        if self.relative is not None:
            more = self.relative(query, places.patches)
            bias = more if bias is None else bias + more
        keys, values = (jnp.repeat(part, self.groups, axis=2) if self.groups > 1 else part for part in keys_values)
        how: dict[str, bool] = {"weights": weights, "custom_gradient": self.execution.uses_custom_gradient}
        y, seen = attention(query, keys, values, bias, mask, self.dropout, key, **how)
        return AttentionOutput(self.out(y), seen, keys_values)

    def keys_values(self, context: jax.Array, places: Places = NOWHERE) -> KeyValues:
        """Keys and values of tokens [batch, keys, width]."""
        keys = self.key(context) if self.key_norm is None else self.key_norm(self.key(context))
        keys, values = constrain(keys, KEYS), constrain(self.value(context), KEYS)
        return KeyValues(keys if places.rotation is None else rotate(keys, places.rotation), values)


def _put(cache: KeyValues, new: KeyValues, at: jax.Array | None) -> KeyValues:
    rows = jnp.arange(len(new.key))[:, None]
    return KeyValues(*(old.at[rows, at].set(part.astype(old.dtype)) for old, part in zip(cache, new, strict=True)))


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: jax.Array | None = None,
    mask: jax.Array | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    *,
    weights: bool = False,
    custom_gradient: bool = False,
) -> tuple[jax.Array, jax.Array | None]:
    """softmax(query · keyᵀ + bias) · value, the softmax in float32: the one place where a kernel is chosen.

    Args:
        query: [batch, queries, heads, head_dim], already scaled.
        key: [batch, keys, heads, head_dim].
        value: the same shape as the keys.
        bias: added to the logits, broadcast to [batch, heads, queries, keys].
        mask: true where a query may look, broadcast alike. A query that may look nowhere gets the mean of the values.
        dropout_rate: fraction of the weights dropped, when there is a key.
        weights: return them too; computed by the plain kernel, whatever runs otherwise.
        custom_gradient: take the derivative written here (CPUs; no forward mode).

    Returns:
        [batch, queries, heads, head_dim], and the weights [batch, heads, queries, keys] before dropout, or None. Those
        of a query sum to 1 over what it may look at and are 0 elsewhere.
    """
    if custom_gradient and not weights and (dropout_key is None or dropout_rate == 0):
        return _head_major(query, key, value, bias, mask), None
    chances = _softmax(jnp.einsum("bqhd,bkhd->bhqk", query, key), bias, mask)
    kept = dropout(chances, dropout_rate, dropout_key).astype(value.dtype)
    answer = jnp.einsum("bhqk,bkhd->bqhd", kept, value)
    if not weights:
        return answer, None
    # a query that may look nowhere takes the mean of all values; what it took from each isn't what it looked at
    return answer, chances if mask is None else jnp.where(mask, chances, 0)


def _softmax(logits: jax.Array, bias: jax.Array | None, mask: jax.Array | None) -> jax.Array:
    logits = logits.astype(jnp.float32)
    logits = logits if bias is None else logits + bias.astype(jnp.float32)
    return jax.nn.softmax(logits if mask is None else jnp.where(mask, logits, LOWEST))


def _head_major(query, key, value, bias, mask):
    """The kernel with its own derivative, between layouts: heads before tokens makes its products contiguous."""
    batch, queries, heads, _ = query.shape
    if bias is not None:  # its gradient is the logits'; summing over what was broadcast is left to JAX
        bias = jnp.broadcast_to(bias.astype(jnp.float32), (batch, heads, queries, key.shape[1]))
    return _attention_with_gradient(*(jnp.swapaxes(x, 1, 2) for x in (query, key, value)), bias, mask).swapaxes(1, 2)


def _dot(a: jax.Array, b: jax.Array, contract_a: int, contract_b: int) -> jax.Array:
    return lax.dot_general(a, b, (((contract_a,), (contract_b,)), ((0, 1), (0, 1))))


@jax.custom_vjp
def _attention_with_gradient(query, key, value, bias, mask):
    return _forward(query, key, value, bias, mask)[0]


def _forward(query, key, value, bias, mask):
    chances = _softmax(_dot(query, key, 3, 3), bias, mask).astype(value.dtype)
    return _dot(chances, value, 3, 2), (query, key, value, bias, chances)


def _backward(saved, dy):
    """Products that contract the second-last dimension of both are the slowest on CPUs, so it is transposed first."""
    query, key, value, bias, chances = saved
    dchances = _dot(dy, value, 3, 3).astype(jnp.float32)
    wide = chances.astype(jnp.float32)
    dlogits = wide * (dchances - (dchances * wide).sum(-1, keepdims=True))
    dbias = None if bias is None else dlogits
    dlogits = dlogits.astype(query.dtype)
    dquery, dkey = _dot(dlogits, key, 3, 2), _dot(_transposed(dlogits), query, 3, 2)
    return dquery, dkey, _dot(_transposed(chances), dy, 3, 2), dbias, None


def _transposed(x: jax.Array) -> jax.Array:
    return lax.optimization_barrier(x.swapaxes(2, 3))


_attention_with_gradient.defvjp(_forward, _backward)
