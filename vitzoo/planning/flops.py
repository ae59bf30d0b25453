"""Arithmetic of a function, counted on its jaxpr: nothing runs, nothing is compiled, no memory is used.

XLA's own count takes the body of a scan once and a custom kernel for nothing.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from vitzoo.jax_internals import contracted, held_by, output_axis, repeats


def count(function: Callable, *args: Any, **kwargs: Any) -> int:
    """Floating-point operations in the matrix products and convolutions of `function(*args, **kwargs)`.

    A multiplication and an addition count as two. The body of a scan counts as often as it runs, a `cond` as its
    costliest branch, a kernel as often as its grid has cells, and whatever `jax.checkpoint` computes anew, again.

    Args:
        function: anything that JAX can trace.
        args, kwargs: arrays or `jax.ShapeDtypeStruct`s, nested as the function takes them.

    Raises:
        ValueError: a `while_loop` holds matrix products: how often it runs isn't known.
    """
    return of_jaxpr(jax.make_jaxpr(function)(*args, **kwargs))


def of_jaxpr(jaxpr: ClosedJaxpr) -> int:
    """The same of what was traced."""
    return _of(jaxpr.jaxpr)


def _of(jaxpr: Jaxpr) -> int:
    return sum(_equation(equation) for equation in jaxpr.eqns)


def _equation(equation: Any) -> int:
    kind = equation.primitive.name
    if kind == "dot_general":
        return _dot(equation)
    if kind == "conv_general_dilated":
        return _convolution(equation)
    inside = [_of(jaxpr) for value in equation.params.values() for jaxpr in held_by(value)]
    if kind == "cond":
        return max(inside)
    if kind == "while" and sum(inside):
        raise ValueError("a while_loop holds matrix products; use lax.scan, whose length is known")
    return repeats(equation) * sum(inside)


def _dot(equation: Any) -> int:
    left = equation.invars[0].aval.shape
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted(equation))


def _convolution(equation: Any) -> int:
    kernel = equation.invars[1].aval.shape
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) // kernel[output_axis(equation)]
