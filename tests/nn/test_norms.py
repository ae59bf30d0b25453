"""Normalisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vitzoo.nn.execution import Execution
from vitzoo.nn.norms import BatchNorm, LayerNorm, RMSNorm

PLAIN, OWN = Execution(custom_gradient=False), Execution(custom_gradient=True)


def norm(x, execution):
    return LayerNorm(x.shape[-1], execution=execution)(x)


@pytest.mark.parametrize("execution", [PLAIN, OWN])
def test_layer_norm_keeps_its_digits_where_the_mean_is_large(once, execution):
    # distances from the mean -1, 0, 1, 0 over their deviation sqrt(0.5); the fast variance gives -1000, 0, 1000, 0
    row = jnp.array([[9999.0, 10000.0, 10001.0, 10000.0]])
    y, back = once(lambda x: (norm(x, execution), jax.grad(lambda x: norm(x, execution)[0, 0])(x)))(row)
    np.testing.assert_allclose(y, [[-1.4142, 0, 1.4142, 0]], atol=1e-3)
    assert np.isfinite(back).all()


def test_rms_norm_keeps_a_large_mean():
    row = jnp.array([[9999.0, 10000.0, 10001.0, 10000.0]])
    np.testing.assert_allclose(RMSNorm(4)(row), [[0.9999, 1.0, 1.0001, 1.0]], atol=1e-6)


def test_rms_norm_divides_by_the_root_mean_square():
    np.testing.assert_allclose(RMSNorm(2)(jnp.array([[3.0, 4.0]])), [[0.848528, 1.131371]], atol=1e-6)  # 12.5 ** 0.5


def test_the_own_derivative_equals_jax_derivative(once):
    x = np.random.default_rng(0).normal(1, 2, (3, 5, 16)).astype(np.float32)

    def run(x, scale, bias, execution):
        module = LayerNorm(16, execution=execution)
        module.scale[...], module.bias[...] = scale, bias
        return jnp.sin(module(x)).sum()

    gradient = once(jax.grad(run, (0, 1, 2)), static_argnums=3)
    gradients = [gradient(x, jnp.arange(16.0), jnp.ones(16), execution) for execution in (PLAIN, OWN)]
    largest = [float(abs(g).max()) for g in gradients[0]]
    for plain, own, scale in zip(*gradients, largest, strict=True):
        np.testing.assert_allclose(own / scale, plain / scale, atol=1e-6)


def test_statistics_are_float32_under_bfloat16(once):
    x = (1000 + jnp.arange(8.0)).astype(jnp.bfloat16)[None]
    y = once(lambda: norm(x, Execution(dtype="bfloat16")))()
    wide = np.asarray(x, np.float64)
    right = (wide - wide.mean()) / wide.std()
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(y, np.float32), right, atol=0.01)


X = np.random.default_rng(0).normal(3, 2, (6, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("weights", [None, [1, 1, 1, 0, 0, 0], [1, 2, 0.5, 0, 1, 1], [0] * 6])
def test_batch_norm_takes_the_weighted_mean_and_variance_of_the_rows_and_moves_its_averages_towards_them(weights):
    norm, rows = BatchNorm(5, momentum=0.75), np.ones(6) if weights is None else np.float64(weights)
    given = None if weights is None else np.float32(weights)
    x = X.copy()
    x[rows == 0] = np.nan  # what only fills up a batch may be anything
    y = norm(x, train=True, example_weight=given)
    flat, counts = X.astype(np.float64).reshape(-1, 5), np.repeat(rows, 4)
    if counts.sum():
        mean = np.average(flat, axis=0, weights=counts)
        variance = np.average((flat - mean) ** 2, axis=0, weights=counts)
        np.testing.assert_allclose(norm.mean[...], 0.25 * mean, rtol=1e-5)
        np.testing.assert_allclose(norm.variance[...], 0.75 + 0.25 * variance, rtol=1e-5)
    else:
        mean, variance = np.zeros(5), np.ones(5)
        np.testing.assert_array_equal(norm.mean[...], mean)
        np.testing.assert_array_equal(norm.variance[...], variance)
    right = (X - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(y[rows > 0], right[rows > 0], rtol=1e-4, atol=1e-5)


def test_batch_norm_evaluates_by_its_running_averages_and_leaves_them():
    norm = BatchNorm(5)
    norm.mean[...], norm.variance[...] = np.full(5, 3.0), np.full(5, 4.0)
    np.testing.assert_allclose(norm(X), (X - 3) / np.sqrt(4 + 1e-5), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(norm.mean[...], 3)


def test_batch_norm_is_that_of_flax():
    ours, theirs = BatchNorm(5, momentum=0.9), nnx.BatchNorm(5, momentum=0.9, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(ours(X, train=True), theirs(X, use_running_average=False), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.mean[...], theirs.mean[...], rtol=1e-5)
    np.testing.assert_allclose(ours.variance[...], theirs.var[...], rtol=1e-5)
