"""Normalisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.nn.execution import Execution
from vitzoo.nn.norms import LayerNorm, RMSNorm

PLAIN, OWN = Execution(derivatives="plain"), Execution(derivatives="own")


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
