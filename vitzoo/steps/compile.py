"""Steps compiled for a mesh: where arguments lie, what is donated. Compiled at the first call, once for each shape.

An evaluation step takes a batch and gives a row of results for each of its examples, or sums over them.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx
from jax.sharding import Mesh

from vitzoo.nn.state import merge
from vitzoo.objectives.base import Batch, Scalars
from vitzoo.parallel import processes
from vitzoo.parallel.processes import place
from vitzoo.parallel.sharding import activations, batch_sharding, replicated
from vitzoo.steps.state import State
from vitzoo.steps.train import Prepare, Step, over_devices, row_keys

Results = jax.Array | Mapping[str, jax.Array]
"""What an evaluation step gives of a name: a row for each example, or sums by name."""


def batch_shapes(row: Mapping[str, npt.ArrayLike], size: int) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of a global batch of `size` rows like this one, to trace a step with; ids stay on the host."""
    arrays = {key: np.asarray(value) for key, value in row.items() if key != "id"}
    return {key: jax.ShapeDtypeStruct((size, *value.shape), value.dtype) for key, value in arrays.items()}


def jit_train_step(step: Step, mesh: Mesh, shardings: State) -> jax.stages.Wrapped:
    """The step of `make_train_step` as `jax.jit` makes it, `(state, batch, seed)`: for `lower`, to plan and to measure.

    Args:
        step: from `make_train_step`.
        mesh: from `parallel.mesh.make_mesh`.
        shardings: of the whole state, from `steps.state.shardings`.
    """
    places = (shardings, batch_sharding(mesh), replicated(mesh))
    results = (shardings, replicated(mesh))
    return jax.jit(_on(mesh, step), in_shardings=places, out_shardings=results, donate_argnums=0)


def compile_train_step(
    step: Step, mesh: Mesh, shardings: State, seed: int
) -> Callable[[State, Batch], tuple[State, Scalars]]:
    """`(state, batch) -> (state, metrics)`. The state given is donated: use the one returned.

    The seed is an argument of the compiled program, not a constant in it: another seed needs no compilation.
    """
    compiled = compiled_together(jit_train_step(step, mesh, shardings))
    low_bits = place(np.uint32(seed % 2**32), replicated(mesh))
    return lambda state, batch: compiled(state, batch, low_bits)


def compile_eval_step(step: Callable, mesh: Mesh) -> Callable[..., dict[str, Results]]:
    """`(params, batch, first, beside) -> {name: [B, ...]}`, the results whole on every device and process. The place
    of the batch's first row in the split is 0, and nothing of the state is beside the parameters, unless given.

    Args:
        step: from `make_eval_step`.
        mesh: where batches are put. Parameters, and what is beside them, are taken from where they lie.
    """
    places = (None, batch_sharding(mesh), replicated(mesh), None)
    compiled = compiled_together(jax.jit(_on(mesh, step), in_shardings=places, out_shardings=replicated(mesh)))

    def evaluate(
        params: State, batch: Batch, first: int = 0, beside: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Results]:
        return compiled(params, batch, place(np.int32(first), replicated(mesh)), dict(beside))

    return evaluate


def compiled_together(function: jax.stages.Wrapped) -> Callable:
    """The jitted function, which every process has compiled before any of them runs it for the first time.

    Compilation takes some longer than others, by minutes where one finds it in its cache; and CPUs' processes that wait
    for another to begin a collective operation with them fail after 30 seconds.

    Args:
        function: as `jax.jit` gives it, called with one kind of arguments only.
    """
    if processes.count() == 1:
        return function
    met = False

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal met
        if not met and not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
            function.lower(*arguments).compile()
            processes.meet()
            met = True
        return function(*arguments)

    return call


def _on(mesh: Mesh, step: Callable) -> Callable:
    @functools.wraps(step)
    def traced(*arguments: Any) -> Any:
        with activations(mesh):
            return step(*arguments)

    return traced


def make_eval_step(
    graph: nnx.GraphDef, outputs: Callable[..., Mapping[str, Results]], prepare: Prepare
) -> Callable[..., dict[str, Results]]:
    """`step(params, batch, first, beside) -> {name: array [B, ...]}`, to be compiled by `compile_eval_step`. `first`
    is the place of the batch's first row in the split, by which each row's `key` is drawn; `beside` what of the state
    `outputs` takes besides the parameters.

    Args:
        graph: the model's static structure, from `nn.state.abstract`.
        outputs: (model, prepared batch, what is in `beside` by name) to arrays with a row for each example; padding
            included, so that the caller leaves rows of weight 0 out. `sums` is a dict of arrays of the whole batch.
        prepare: (batch, key) to the batch that the model takes; called without a key.
    """

    def step(params: State, batch: Batch, first: jax.Array, beside: Mapping[str, Any]) -> dict[str, Results]:
        batch = prepare(batch, None)
        rows = over_devices(batch | row_keys(batch, jax.random.key(0), first))
        return dict(outputs(merge(graph, params), rows, **beside))

    return step
