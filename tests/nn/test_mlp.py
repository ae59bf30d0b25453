"""The MLP and its GELU."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vitzoo.nn.mlp import MLP, gelu


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("form", "right"), [("exact", 0.841345), ("tanh", 0.841192), ("quick", 0.845796)])
def test_gelu_of_one(once, form, right, own):
    np.testing.assert_allclose(once(lambda x: gelu(x, form, custom_gradient=own))(1.0), right, atol=1e-6)


def test_the_two_forms_differ_by_at_most_473_millionths_near_2_69(once):
    x = np.linspace(-5, 5, 100_001, dtype=np.float32)
    gap = np.asarray(once(lambda: abs(gelu(x, "exact") - gelu(x, "tanh")))())
    np.testing.assert_allclose(gap.max(), 4.73e-4, atol=1e-6)
    np.testing.assert_allclose(abs(x[gap.argmax()]), 2.69, atol=0.02)


def exact_slope(x):
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return np.array([0.5 * math.erfc(-v / 2**0.5) for v in x]) + x * density


def tanh_slope(x):
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return 0.5 * (1 + np.tanh(u)) + 0.5 * x / np.cosh(u) ** 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)


@pytest.mark.parametrize(("form", "slope"), [("exact", exact_slope), ("tanh", tanh_slope)])
@pytest.mark.parametrize(("own", "within"), [(True, 1e-6), (False, 4e-6)])  # ours loses fewer digits than JAX's
def test_both_derivatives_give_the_slope(form, slope, own, within):
    x = np.linspace(-6, 6, 1001, dtype=np.float32)
    # optimised as in use: the tests' own setting changes the digits of the hyperbolic tangent
    optimised = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
    gradient = jax.jit(jax.grad(lambda x: gelu(x, form, custom_gradient=own).sum()), compiler_options=optimised)(x)
    np.testing.assert_allclose(gradient, slope(x.astype(np.float64)), atol=within)


def test_dropout_acts_only_with_a_key(once):
    def run(key):
        return MLP(8, 16, dropout=0.5, hidden_dropout=0.5, rngs=nnx.Rngs(0))(jnp.ones((2, 3, 8)), key)

    run = once(run)
    still, one, again = run(None), run(jax.random.key(0)), run(jax.random.key(0))
    np.testing.assert_array_equal(one, again)
    assert (still == still[0, 0]).all()  # equal tokens stay equal
    assert (one != still).any()
