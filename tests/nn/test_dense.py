"""The linear layer."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo.nn.dense import Dense, matmul
from vitzoo.nn.execution import Execution


def test_a_layer_maps_its_last_dimensions():
    layer = Dense(6, (2, 3), rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    assert layer.kernel.shape == (6, 2, 3)
    np.testing.assert_allclose(layer(x), np.einsum("btd,dhk->bthk", x, layer.kernel[...]), atol=1e-6)
    back = Dense((2, 3), 6, rngs=nnx.Rngs(1))
    y = np.ones((4, 2, 3), np.float32)
    np.testing.assert_allclose(back(y), np.einsum("bhk,hkd->bd", y, back.kernel[...]), atol=1e-6)


def test_initialisers_see_the_kernel_as_a_matrix(once):
    kernel = once(lambda: Dense(64, (8, 8), rngs=nnx.Rngs(0)).kernel[...])()
    assert 0.2 < abs(kernel).max() <= (6 / 128) ** 0.5  # Glorot for 64 inputs and 64 outputs


def test_the_own_derivative_equals_jax_derivative(once):
    rng = np.random.default_rng(0)
    x, kernel = (rng.normal(size=shape).astype(np.float32) for shape in [(3, 5, 8), (8, 4)])

    def gradients(own):
        return once(jax.grad(lambda x, w: jnp.sin(matmul(x, w, custom_gradient=own)).sum(), (0, 1)))(x, kernel)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), gradients(True), gradients(False))


def test_the_plain_product_has_a_forward_mode():
    x, kernel = jnp.ones((2, 3)), jnp.ones((3, 4))
    _, tangent = jax.jvp(lambda x: matmul(x, kernel, custom_gradient=False), (x,), (x,))
    np.testing.assert_array_equal(tangent, np.full((2, 4), 3.0))


def test_compute_in_bfloat16_keeps_the_kernel_float32():
    layer = Dense(4, 4, rngs=nnx.Rngs(0), execution=Execution(dtype="bfloat16"))
    assert layer.kernel.dtype == jnp.float32
    assert layer(jnp.ones((2, 4))).dtype == jnp.bfloat16
