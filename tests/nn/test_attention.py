"""Attention, its two kernels and its parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vitzoo.nn import state
from vitzoo.nn.attention import Attention, attention
from vitzoo.nn.execution import Execution

BATCH, QUERIES, KEYS, HEADS, SIZE = 2, 5, 7, 3, 4


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


QUERY = draw(0, BATCH, QUERIES, HEADS, SIZE)
KEY, VALUE = draw(1, BATCH, KEYS, HEADS, SIZE), draw(2, BATCH, KEYS, HEADS, SIZE)
BIAS = draw(3, 1, HEADS, QUERIES, KEYS)
MASK = np.tril(np.ones((QUERIES, KEYS), bool), 2)[None, None]


def by_hand(query, key, value, bias, mask):
    answer = np.zeros_like(query)
    for b, q, h in np.ndindex(*query.shape[:3]):
        logits = key[b, :, h] @ query[b, q, h] + (bias[0, h, q] if bias is not None else 0)
        chances = np.exp(logits) * (mask[0, 0, q] if mask is not None else 1)
        answer[b, q, h] = chances / chances.sum() @ value[b, :, h]
    return answer


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("bias", "mask"), [(None, None), (BIAS, None), (None, MASK), (BIAS, MASK)])
def test_both_kernels_give_the_definition(once, own, bias, mask):
    answer = once(lambda: attention(QUERY, KEY, VALUE, bias, mask, custom_gradient=own)[0])()
    np.testing.assert_allclose(answer, by_hand(QUERY, KEY, VALUE, bias, mask), atol=1e-6)


@pytest.mark.parametrize("mask", [None, MASK])
def test_the_own_derivative_equals_jax_derivative(once, mask):
    def loss(query, key, value, bias, own):
        return jnp.sin(attention(query, key, value, bias, mask, custom_gradient=own)[0]).sum()

    gradient = once(jax.grad(loss, (0, 1, 2, 3)), static_argnums=4)
    gradients = [gradient(QUERY, KEY, VALUE, BIAS, own) for own in (False, True)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), *gradients)


def test_weights_come_on_demand_whatever_kernel_runs_and_sum_to_one(once):
    answer, weights = once(lambda: attention(QUERY, KEY, VALUE, weights=True, custom_gradient=True))()
    assert weights.shape == (BATCH, HEADS, QUERIES, KEYS)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(answer, attention(QUERY, KEY, VALUE, custom_gradient=True)[0], atol=1e-6)


def test_a_query_that_may_look_nowhere_gets_the_mean_of_the_values(once):
    mask = np.zeros((1, 1, QUERIES, KEYS), bool)
    for own in (False, True):
        answer = once(lambda own=own: attention(QUERY, KEY, VALUE, None, mask, custom_gradient=own)[0])()
        np.testing.assert_allclose(answer[:, 0], VALUE.mean(1), atol=1e-6)


def test_the_softmax_is_float32_under_bfloat16(once):
    query, key, value = (x.astype(jnp.bfloat16) for x in (QUERY, KEY, VALUE))
    answer, weights = once(lambda: attention(query, key, value, weights=True))()
    assert (answer.dtype, weights.dtype) == (jnp.bfloat16, jnp.float32)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_dropped_weights_are_those_of_the_key(once):
    run = once(lambda key: attention(QUERY, KEY, VALUE, None, None, 0.5, key)[0])
    one, again, other = (run(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


@pytest.mark.gate
@pytest.mark.parametrize("qk_norm", [False, True])
def test_a_module_gives_the_same_either_way(once, qk_norm):
    x, context = draw(4, 2, 5, 12), draw(5, 2, 7, 12)

    def run(params, how):
        graph, _ = state.abstract(lambda rngs: Attention(12, 3, qk_norm=qk_norm, rngs=rngs, execution=how))
        module = state.merge(graph, params)
        return module(x).tokens, module(x, module.keys_values(context)).tokens

    params = state.initialise(lambda rngs: Attention(12, 3, qk_norm=qk_norm, rngs=rngs), 0)
    plain, own = (once(run, static_argnums=1)(params, Execution(custom_gradient=how)) for how in (False, True))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), plain, own)
    assert plain[1].shape == (2, 5, 12)


def test_with_qk_norm_the_size_of_queries_no_longer_matters(once):
    x = draw(4, 2, 5, 12)

    def weights(factor):
        module = Attention(12, 3, qk_norm=True, rngs=nnx.Rngs(0))
        module.query.kernel[...] *= factor
        return module(x, weights=True)[1]

    weights = once(weights)
    np.testing.assert_allclose(weights(10.0), weights(1.0), atol=1e-4)
