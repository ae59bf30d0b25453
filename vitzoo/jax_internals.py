"""All that vitzoo reads of JAX which JAX doesn't promise to keep: the parameters of its primitives, and the state of
its distributed runtime. Read with jax 0.10 to 0.12; a test traces every one of them, so that a release which changes
them is seen before it is allowed.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from jax._src import distributed
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

VERSIONS = ("0.10", "0.11", "0.12")
"""The releases of JAX that the package allows; of 0.12 on, a closed jaxpr and an open one are of one class."""
_NOT_CALLS = ("scan", "while", "cond", "pallas_call", "shard_map")


@dataclasses.dataclass(frozen=True)
class Scan:
    """A `lax.scan`.

    Attributes:
        length: how often the body runs.
        carried: how many of its results, the first ones, are carried; the others are stacked up.
        body: what runs.
    """

    length: int
    carried: int
    body: Jaxpr


def scan_of(equation: JaxprEqn) -> Scan | None:
    """The loop that an equation is; None of any other."""
    if equation.primitive.name != "scan":
        return None
    body = equation.params["jaxpr"].jaxpr
    # what is stacked up has a dimension more than the body's result; how many are carried is named otherwise by release
    results = zip(equation.outvars, body.outvars, strict=True)
    carried = sum(len(outside.aval.shape) == len(inside.aval.shape) for outside, inside in results)  # type: ignore[attr-defined]
    return Scan(equation.params["length"], carried, body)


def called(equation: JaxprEqn) -> Jaxpr | None:
    """The jaxpr that an equation does nothing but call: a jitted function, one with its own derivative."""
    if equation.primitive.name in _NOT_CALLS:
        return None
    for value in equation.params.values():
        inner = value.jaxpr if isinstance(value, ClosedJaxpr) else value
        if isinstance(inner, Jaxpr) and len(inner.invars) == len(equation.invars):
            return inner
    return None


def held_by(value: Any) -> Iterator[Jaxpr]:
    """The jaxprs within an equation's parameter, in tuples too."""
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from held_by(item)


def repeats(equation: JaxprEqn) -> int:
    """How often the jaxprs run that an equation holds, on all devices together; once, where that isn't known."""
    params = equation.params
    if equation.primitive.name == "scan":
        return params["length"]
    if equation.primitive.name == "pallas_call":
        return math.prod(params["grid_mapping"].grid)
    if equation.primitive.name == "shard_map":
        return math.prod(params["mesh"].shape[axis] for axis in params["newly_manual_axes"])
    return 1


def contracted(equation: JaxprEqn) -> tuple[int, ...]:
    """Of a product, the axes of the left operand over which is summed."""
    (left, _), _ = equation.params["dimension_numbers"]
    return tuple(left)


def output_axis(equation: JaxprEqn) -> int:
    """Of a convolution, the axis of its kernel that numbers the outputs."""
    return equation.params["dimension_numbers"].rhs_spec[0]


def distributed_state() -> distributed.State:
    """The connection to the other processes: `client`, `num_processes`, `process_id`, `preemption_sync_manager`."""
    return distributed.global_state
