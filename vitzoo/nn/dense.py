"""The linear layer, between any numbers of dimensions."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.nn.initializers import Initializer, xavier_uniform, zeros

from vitzoo.nn.execution import DEFAULT, Execution

XAVIER = xavier_uniform()


class Dense(nnx.Module):
    """`x · kernel + bias` over the last dimensions of x: [..., *inputs] to [..., *outputs].

    The kernel keeps its dimensions apart, [*inputs, *outputs] (`[width, heads, head_dim]` for a query), so that rules
    can shard one of them; initialisers see it as the matrix it is, [inputs, outputs].
    """

    def __init__(
        self,
        inputs: int | Sequence[int],
        outputs: int | Sequence[int],
        *,
        bias: bool = True,
        kernel_init: Initializer = XAVIER,
        bias_init: Initializer = zeros,
        rngs: nnx.Rngs,
        execution: Execution = DEFAULT,
    ):
        self.inputs, self.outputs = _dimensions(inputs), _dimensions(outputs)
        self.execution = execution
        matrix = kernel_init(rngs.params(), (math.prod(self.inputs), math.prod(self.outputs)), jnp.float32)
        self.kernel = nnx.Param(matrix.reshape(self.inputs + self.outputs))
        self.bias = nnx.Param(bias_init(rngs.params(), self.outputs, jnp.float32)) if bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        dtype, size = self.execution.compute, math.prod(self.inputs)
        leading = x.shape[: x.ndim - len(self.inputs)]
        kernel = self.kernel[...].astype(dtype).reshape(size, -1)
        y = matmul(x.astype(dtype).reshape(*leading, size), kernel, custom_gradient=self.execution.uses_custom_gradient)
        y = y.reshape(*leading, *self.outputs)
        return y if self.bias is None else y + self.bias[...].astype(dtype)


def matmul(x: jax.Array, kernel: jax.Array, *, custom_gradient: bool) -> jax.Array:
    """`x · kernel`: [..., inputs] times [inputs, outputs].

    Args:
        custom_gradient: take the derivative written here. JAX's makes the kernel's gradient a product over
            [batch, tokens] with a transposed copy fused into what feeds it, which costs CPUs a third of a training
            step; ours is one product over the flattened rows. It has no forward mode.
    """
    return _matmul_with_gradient(x, kernel) if custom_gradient else x @ kernel


@jax.custom_vjp
def _matmul_with_gradient(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return x @ kernel


def _forward(x, kernel):
    return x @ kernel, (x, kernel)


def _backward(saved, dy):
    x, kernel = saved
    rows, out = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    dkernel = lax.dot_general(rows, out, (((0,), (0,)), ((), ())))
    dx = lax.dot_general(out, kernel, (((1,), (1,)), ((), ())))
    return dx.reshape(x.shape), dkernel


_matmul_with_gradient.defvjp(_forward, _backward)


def _dimensions(size: int | Sequence[int]) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)
