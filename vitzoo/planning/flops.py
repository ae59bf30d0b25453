"""Arithmetic of a function, counted on its jaxpr: nothing runs, nothing is compiled, no memory is used.

XLA's own count takes the body of a scan once and a custom kernel for nothing.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


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
    kind, params = equation.primitive.name, equation.params
    if kind == "dot_general":
        return _dot(equation)
    if kind == "conv_general_dilated":
        return _convolution(equation)
    inside = [_of(jaxpr) for value in params.values() for jaxpr in _jaxprs(value)]
    if kind == "cond":
        return max(inside)
    if kind == "while" and sum(inside):
        raise ValueError("a while_loop holds matrix products; use lax.scan, whose length is known")
    return _times(kind, params) * sum(inside)


def _times(kind: str, params: dict[str, Any]) -> int:
    if kind == "scan":
        return params["length"]
    if kind == "pallas_call":
        return math.prod(params["grid_mapping"].grid)
    if kind == "shard_map":
        return math.prod(params["mesh"].shape[axis] for axis in params["manual_axes"])
    return 1


def _jaxprs(value: Any) -> Iterator[Jaxpr]:
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _jaxprs(item)


def _dot(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)


def _convolution(equation: Any) -> int:
    kernel = equation.invars[1].aval.shape
    outputs = equation.params["dimension_numbers"].rhs_spec[0]
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) // kernel[outputs]
