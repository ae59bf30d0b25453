"""Counting arithmetic on a jaxpr."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from vitzoo.planning.jaxprs import count_flops


def array(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


A, B = array(3, 4), array(4, 5)
PRODUCT = 2 * 3 * 4 * 5


def test_a_product_counts_two_for_each_multiplication():
    assert count_flops(jnp.matmul, A, B) == PRODUCT
    assert count_flops(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), array(7, 3, 4), array(7, 4, 5)) == 7 * PRODUCT
    assert count_flops(lambda a: jnp.exp(a) + a, A) == 0


def test_a_convolution_counts_its_kernel_at_each_place():
    images, kernel = array(2, 8, 8, 3), array(4, 4, 3, 16)
    conv = lambda x, k: lax.conv_general_dilated(  # noqa: E731
        x, k, (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    assert count_flops(conv, images, kernel) == 2 * (2 * 2 * 2 * 16) * (4 * 4 * 3)


def test_the_body_of_a_scan_counts_as_often_as_it_runs():
    square = array(3, 3)
    assert count_flops(lambda a: lax.scan(lambda c, _: (c @ a, None), a, None, length=6)[0], square) == 6 * 2 * 27


def test_a_condition_counts_its_costliest_branch():
    assert count_flops(lambda a, b: lax.cond(True, lambda: a @ b, lambda: jnp.zeros((3, 5))), A, B) == PRODUCT


def test_what_is_compiled_or_has_its_own_derivative_counts_too():
    own = jax.custom_vjp(lambda a, b: a @ b)
    own.defvjp(lambda a, b: (a @ b, (a, b)), lambda saved, d: (d @ saved[1].T, saved[0].T @ d))
    assert count_flops(jax.jit(own), A, B) == PRODUCT
    assert count_flops(jax.grad(lambda a, b: own(a, b).sum(), (0, 1)), A, B) == 3 * PRODUCT


def test_what_is_computed_anew_counts_again():
    square = array(4, 4)
    layer = lambda w, x: jnp.tanh(jnp.tanh(x @ w) @ w)  # noqa: E731
    loss = lambda f: lambda w, x: f(w, x).sum()  # noqa: E731
    kept = count_flops(jax.grad(loss(layer)), square, square)
    assert count_flops(jax.grad(loss(jax.checkpoint(layer))), square, square) > kept


def test_a_loop_of_unknown_length_with_products_is_an_error():
    loop = lambda a: lax.while_loop(lambda c: c.sum() < 1, lambda c: c @ a, a)  # noqa: E731
    with pytest.raises(ValueError, match="while_loop"):
        count_flops(loop, array(3, 3))
    assert count_flops(lambda a: lax.while_loop(lambda c: c.sum() < 1, lambda c: c + 1, a), A) == 0
