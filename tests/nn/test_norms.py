"""Normalisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.nn.execution import Execution
from vitzoo.nn.norms import LayerNorm, RMSNorm

PLAIN, OWN = Execution(derivatives="plain"), Execution(derivatives="own")


@pytest.mark.parametrize("execution", [PLAIN, OWN])
def test_layer_norm_keeps_its_digits_where_the_mean_is_large(execution):
    # distances from the mean -1, 0, 1, 0 over their deviation sqrt(0.5); the fast variance gives -1000, 0, 1000, 0
    row = jnp.array([[9999.0, 10000.0, 10001.0, 10000.0]])
    np.testing.assert_allclose(LayerNorm(4, execution=execution)(row), [[-1.4142, 0, 1.4142, 0]], atol=1e-3)
    assert np.isfinite(jax.grad(lambda x: LayerNorm(4, execution=execution)(x)[0, 0])(row)).all()


def test_rms_norm_keeps_a_large_mean():
    row = jnp.array([[9999.0, 10000.0, 10001.0, 10000.0]])
    np.testing.assert_allclose(RMSNorm(4)(row), [[0.9999, 1.0, 1.0001, 1.0]], atol=1e-6)


def test_rms_norm_divides_by_the_root_mean_square():
    np.testing.assert_allclose(RMSNorm(2)(jnp.array([[3.0, 4.0]])), [[0.848528, 1.131371]], atol=1e-6)  # 12.5 ** 0.5


def test_the_own_derivative_equals_jax_derivative():
    x = jax.random.normal(jax.random.key(0), (3, 5, 16)) * 2 + 1

    def run(x, scale, bias, execution):
        norm = LayerNorm(16, execution=execution)
        norm.scale[...], norm.bias[...] = scale, bias
        return jnp.sin(norm(x)).sum()

    gradient = jax.jit(jax.grad(run, (0, 1, 2)), static_argnums=3)
    gradients = [gradient(x, jnp.arange(16.0), jnp.ones(16), execution) for execution in (PLAIN, OWN)]
    largest = [float(abs(g).max()) for g in gradients[0]]
    for plain, own, scale in zip(*gradients, largest, strict=True):
        np.testing.assert_allclose(own / scale, plain / scale, atol=1e-6)


def test_statistics_are_float32_under_bfloat16():
    x = (1000 + jnp.arange(8.0)).astype(jnp.bfloat16)[None]
    y = LayerNorm(8, execution=Execution(dtype="bfloat16"))(x)
    wide = np.asarray(x, np.float64)
    right = (wide - wide.mean()) / wide.std()
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(y, np.float32), right, atol=0.01)
