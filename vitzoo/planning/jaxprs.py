"""What a computation takes, from its jaxpr: FLOPs, and the memory at its fullest moment. Nothing runs or is compiled.

XLA's own count of FLOPs takes the body of a scan once and a custom kernel for nothing.

Of memory: compilers fuse, so that what is computed element by element is made where it is used, and never lies in
memory by itself. So only results of products, gathers and loops take room here, each from where it is made to its last
use. A loop takes what it stacks up (the residuals that a backward pass needs), and besides, while it runs, what its
body takes.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from vitzoo.jax_internals import called, contracted, held_by, output_axis, repeats, scan_of


class Sized(Protocol):
    """An array, or what stands for one."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...


class Weigher(Protocol):
    """How many bytes things take on one device."""

    def array(self, aval: Sized) -> float:
        """A result in memory, from its shape and type."""
        ...

    def stack(self, aval: Sized) -> float:
        """A result of a loop."""
        ...

    def operand(self, aval: Sized) -> float:
        """What a product is given, beyond what is there anyhow: a weight gathered from the devices that hold it."""
        ...


MADE = {"dot_general", "conv_general_dilated", "scan", "while", "cond", "gather", "scatter-add", "scatter", "sort"}
MADE |= {"dynamic_update_slice", "concatenate", "cumsum", "random_bits", "top_k", "pallas_call"}
"""Primitives whose results lie in memory."""
GAPS = 1.25
"""Room that a loop's working arrays take for each byte: chosen after the compiler's figures (docs/scaling.md)."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One equation; variables are numbers that are unique over all that was inlined.

    Attributes:
        length, carried, body: of a scan: how often it runs, how many of its results are carried, what runs.
        params: of the primitive.
    """

    kind: str
    given: tuple[int, ...]
    made: tuple[int, ...]
    params: Mapping[str, Any]
    length: int = 1
    carried: int = 0
    body: "Program | None" = None

    @property
    def in_memory(self) -> bool:
        """Whether its results lie in memory."""
        return self.kind in MADE


@dataclasses.dataclass(frozen=True)
class Program:
    """A jaxpr with its calls inlined.

    Attributes:
        avals: shape and type of each variable.
        inputs, outputs: variables.
        operations: in order.
    """

    avals: Mapping[int, Sized]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operations: tuple[Operation, ...]

    @functools.cached_property
    def written(self) -> frozenset[int]:
        """Variables that lie in memory: what doesn't fuse with its consumers, and what is gathered from."""
        tables = {one.given[0] for one in self.operations if one.kind == "gather" and one.given}
        made = {var for one in self.operations for var in one.made if one.in_memory or var in tables}
        return frozenset(made)

    @functools.cached_property
    def roots(self) -> Mapping[int, frozenset[int]]:
        """For each variable those in memory from which it is computed on the fly: itself, where it lies there."""
        found = {var: frozenset((var,)) for var in self.inputs}
        for operation in self.operations:
            whole = frozenset().union(*(found.get(var, frozenset()) for var in operation.given))
            found |= {var: frozenset((var,)) if var in self.written else whole for var in operation.made}
        return found

    @functools.cached_property
    def last_use(self) -> Mapping[int, int]:
        """The last operation that needs each variable in memory; the number of operations for outputs."""
        found: dict[int, int] = {}
        for place, operation in enumerate(self.operations):
            for var in operation.given:
                found |= dict.fromkeys(self.roots.get(var, ()), place)
        for var in self.outputs:
            found |= dict.fromkeys(self.roots.get(var, ()), len(self.operations))
        return found

    @functools.cached_property
    def ends(self) -> Mapping[int, list[int]]:
        """By operation, the variables whose last use it is; those never used end where they are made."""
        found: dict[int, list[int]] = {}
        for place, operation in enumerate(self.operations):
            for var in self.written.intersection(operation.made):
                found.setdefault(self.last_use.get(var, place), []).append(var)
        return found


def inlined(jaxpr: ClosedJaxpr) -> Program:
    """The jaxpr as a program. Its results are of no concern: gradients lie where their parameters do."""
    return _Reader().read(jaxpr.jaxpr, 0)


def peak_bytes(given: Program, weigh: Weigher) -> float:
    """Bytes at the fullest moment, beyond the inputs'."""
    return max(_held(given, weigh), default=0.0)


def _held(given: Program, weigh: Weigher) -> Iterator[float]:
    """Bytes in memory while each operation runs."""
    live: dict[int, float] = {}
    for place, operation in enumerate(given.operations):
        measure = weigh.array if operation.body is None else weigh.stack
        live |= {var: measure(given.avals[var]) for var in given.written.intersection(operation.made)}
        inside = 0.0 if operation.body is None else GAPS * peak_bytes(operation.body, weigh)
        gathered = [given.avals[var] for var in operation.given] if operation.kind == "dot_general" else []
        yield sum(live.values()) + inside + sum(map(weigh.operand, gathered))
        for var in given.ends.get(place, ()):
            live.pop(var, None)


class _Reader:
    """Numbers variables and inlines calls."""

    def __init__(self) -> None:
        self.avals: dict[int, Sized] = {}

    def read(self, jaxpr: Jaxpr, kept: int | None = None) -> Program:
        """A program, of whose results the first `kept` stay until its end; all by default."""
        names: dict[Var, int] = {}
        inputs = tuple(self._new(names, var) for var in (*jaxpr.constvars, *jaxpr.invars))
        operations = tuple(self._operations(jaxpr, names))
        outputs = tuple(self._known(names, var) for var in jaxpr.outvars[:kept])
        return Program(self.avals, inputs, outputs, operations)

    def _number(self, aval: Sized) -> int:
        self.avals[len(self.avals)] = aval
        return len(self.avals) - 1

    def _new(self, names: dict[Var, int], var: Var) -> int:
        names[var] = self._number(_array(var))
        return names[var]

    def _operations(self, jaxpr: Jaxpr, names: dict[Var, int]) -> Iterator[Operation]:
        for equation in jaxpr.eqns:
            inner = called(equation)
            if inner is None:
                yield self._operation(equation, names)
                continue
            own = {var: self._known(names, arg) for var, arg in zip(inner.invars, equation.invars, strict=True)}
            for var in inner.constvars:
                self._new(own, var)
            yield from self._operations(inner, own)
            for outside, inside in zip(equation.outvars, inner.outvars, strict=True):
                names[outside] = self._known(own, inside)

    def _known(self, names: dict[Var, int], var: Var | Literal) -> int:
        return self._number(_array(var)) if isinstance(var, Literal) else names[var]

    def _operation(self, equation: JaxprEqn, names: dict[Var, int]) -> Operation:
        given = tuple(names[var] for var in equation.invars if not isinstance(var, Literal))
        made = tuple(self._new(names, var) for var in equation.outvars)
        kind, params = equation.primitive.name, equation.params
        if loop := scan_of(equation):
            body = _Reader().read(loop.body, loop.carried)  # what it stacks up goes there at once
            return Operation(kind, given, made, params, loop.length, loop.carried, body)
        return Operation(kind, given, made, params)


def _array(var: Var | Literal) -> Any:
    """The shape and type of a variable."""
    return var.aval


def count_flops(function: Callable, *args: Any, **kwargs: Any) -> int:
    """Floating-point operations in the matrix products and convolutions of `function(*args, **kwargs)`.

    A multiplication and an addition count as two. The body of a scan counts as often as it runs, a `cond` as its
    costliest branch, a kernel as often as its grid has cells, and whatever `jax.checkpoint` computes anew, again.

    Args:
        function: anything that JAX can trace.
        args, kwargs: arrays or `jax.ShapeDtypeStruct`s, nested as the function takes them.

    Raises:
        ValueError: a `while_loop` holds matrix products: how often it runs isn't known.
    """
    return flops_of(jax.make_jaxpr(function)(*args, **kwargs))


def flops_of(jaxpr: ClosedJaxpr) -> int:
    """The same of what was traced."""
    return _flops(jaxpr.jaxpr)


def _flops(jaxpr: Jaxpr) -> int:
    return sum(_equation(equation) for equation in jaxpr.eqns)


def _equation(equation: JaxprEqn) -> int:
    kind = equation.primitive.name
    if kind == "dot_general":
        return _dot(equation)
    if kind == "conv_general_dilated":
        return _convolution(equation)
    inside = [_flops(jaxpr) for value in equation.params.values() for jaxpr in held_by(value)]
    if kind == "cond":
        return max(inside)
    if kind == "while" and any(inside):
        raise ValueError("a while_loop holds matrix products; use lax.scan, whose length is known")
    return repeats(equation) * sum(inside)


def _dot(equation: JaxprEqn) -> int:
    left = _array(equation.invars[0]).shape
    return 2 * math.prod(_array(equation.outvars[0]).shape) * math.prod(left[axis] for axis in contracted(equation))


def _convolution(equation: JaxprEqn) -> int:
    kernel = _array(equation.invars[1]).shape
    return 2 * math.prod(_array(equation.outvars[0]).shape) * math.prod(kernel) // kernel[output_axis(equation)]
