"""What a training step holds on each device, by formula: state and gradients exactly, activations from the jaxpr.

One micro-batch is traced with a number of rows that no other dimension is a multiple of, so that every array tells
whether it grows with the batch; from then on any batch, mesh and accumulation costs nothing but arithmetic.
"""

import dataclasses
import functools
import math

import jax
from jax.extend.core import ClosedJaxpr

from vitzoo.nn.state import Params, merge, statistics
from vitzoo.objectives.base import Batch, WithEmbeddings
from vitzoo.planning import jaxprs
from vitzoo.planning.blueprint import Blueprint
from vitzoo.planning.layout import StateLayout
from vitzoo.steps import state as states

ROWS = 1009
"""Traced rows: a prime."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes on the fullest device.

    Attributes:
        parameters, optimizer: exact, from the shardings.
        gradients: a float32 number for each parameter, where the parameters lie; twice with accumulation.
        batch: the device's rows as loaded and as prepared, and those that they are mixed with.
        activations: what the backward pass needs and what it works with, at the fullest moment, and the parameters'
            copy in the type of the products.
    """

    parameters: int
    optimizer: int
    gradients: int
    batch: int
    activations: int

    @property
    def peak(self) -> int:
        """All of it."""
        return self.parameters + self.optimizer + self.gradients + self.batch + self.activations


@dataclasses.dataclass(frozen=True)
class OnDevice:
    """Weighs what was traced as it lies on one device of a mesh; see `live.Weigher`.

    Attributes:
        rows: of a micro-batch on a device.
        tensor: devices that share a layer.
        tensor_sizes: sizes of the dimensions that they share.
        gathers: whether weights are gathered from several devices.
    """

    rows: int
    tensor: int
    tensor_sizes: frozenset[int]
    gathers: bool

    def grows(self, aval: jaxprs.Sized) -> bool:
        """Whether an array has rows of the batch."""
        return any(size and size % ROWS == 0 for size in aval.shape)

    def array(self, aval: jaxprs.Sized) -> float:
        shared = self.tensor if self.tensor_sizes.intersection(aval.shape) else 1
        fraction = self.rows / ROWS if self.grows(aval) else 1.0
        return bytes_of(aval) * fraction / shared

    def stack(self, aval: jaxprs.Sized) -> float:
        # what doesn't grow is weights' gradients, counted where the parameters lie
        return self.array(aval) if self.grows(aval) else 0.0

    def operand(self, aval: jaxprs.Sized) -> float:
        return self.array(aval) if self.gathers and not self.grows(aval) else 0.0


class Estimator:
    """Estimates steps of one training on any mesh.

    Args:
        like: another of the same model, whose traces serve here too: they don't depend on batch or devices.
    """

    def __init__(self, blueprint: Blueprint, like: "Estimator | None" = None):
        self.blueprint = blueprint
        self._traces: dict[str, ClosedJaxpr] = {} if like is None else like._traces
        self._programs: dict[str, jaxprs.Program] = {} if like is None else like._programs
        self._flops: dict[str, int] = {} if like is None else like._flops
        self._activations: dict[tuple[str, OnDevice], float] = {} if like is None else like._activations
        self._batches: dict[int, int] = {}

    def trace(self, remat: str) -> ClosedJaxpr:
        """Loss and gradients of a micro-batch of `ROWS` rows."""
        if remat not in self._traces:
            self._traces[remat] = self._traced(remat)
        return self._traces[remat]

    def _traced(self, remat: str) -> ClosedJaxpr:
        blueprint = self.blueprint
        graph, shapes = blueprint.model(remat)
        trained, frozen = jax.eval_shape(blueprint.chain.partition, shapes)
        join, objective, memory = blueprint.chain.join, blueprint.objective, states.memory(blueprint.state)

        def loss(
            trained: Params, frozen: Params, batch: Batch, key: jax.Array, memory: Params | None, step: jax.Array
        ) -> tuple:
            params = join(trained, frozen)
            model = merge(graph, params)
            if isinstance(objective, WithEmbeddings):
                sums, *others = objective.sums_of(
                    objective.embeddings(model, batch, key), params, batch, memory=memory, step=step
                )
            else:
                sums, *others = objective.sums(model, batch, key, train=True, memory=memory, step=step)
            return sum(sums.values()), (sums, others, statistics(model))

        key = jax.eval_shape(lambda: jax.random.key(0))
        differentiate = jax.value_and_grad(loss, has_aux=True)
        step = blueprint.state["step"]
        return jax.make_jaxpr(differentiate)(trained, frozen, blueprint.prepared(ROWS), key, memory, step)

    def program(self, remat: str) -> jaxprs.Program:
        """The same with calls inlined."""
        if remat not in self._programs:
            self._programs[remat] = jaxprs.inlined(self.trace(remat))
        return self._programs[remat]

    def looped(self, remat: str) -> jaxprs.Program:
        """The same with layers in loops, where the config unrolls them: what devices send doesn't depend on it."""
        if self.blueprint.experiment.scan is not False:
            return self.program(remat)
        if f"{remat}, looped" not in self._programs:
            experiment = dataclasses.replace(self.blueprint.experiment, scan=True)
            other = Estimator(dataclasses.replace(self.blueprint, experiment=experiment))
            self._programs[f"{remat}, looped"] = other.program(remat)
        return self._programs[f"{remat}, looped"]

    def flops(self, remat: str) -> int:
        """FLOPs of the products of a step, recomputation included, all devices together."""
        if remat not in self._flops:
            self._flops[remat] = jaxprs.flops_of(self.trace(remat))
        return round(self._flops[remat] * self.blueprint.experiment.data.batch_size / ROWS)

    def memory(self, layout: StateLayout, remat: str, accumulate: int) -> Memory:
        """What a step holds.

        Args:
            layout: of the state on the mesh.
            remat: the policy.
            accumulate: micro-batches.
        """
        sizes = layout.sizes
        rows = self.blueprint.experiment.data.batch_size // (sizes["data"] * sizes["fsdp"])
        copies = 1 if accumulate == 1 else 2
        return Memory(
            parameters=layout.parameters,
            optimizer=layout.optimizer,
            gradients=copies * layout.gradients,
            batch=self._batch_bytes(rows),
            activations=round(self._compute_copy(layout) + self.activations(self.on_device(layout, accumulate), remat)),
        )

    def on_device(self, layout: StateLayout, accumulate: int) -> OnDevice:
        """What weighs the arrays of a micro-batch."""
        sizes = layout.sizes
        rows = self.blueprint.experiment.data.batch_size // (sizes["data"] * sizes["fsdp"] * accumulate)
        return OnDevice(rows, sizes["tensor"], layout.tensor_sizes, sizes["fsdp"] > 1)

    def activations(self, weigh: OnDevice, remat: str) -> float:
        """Bytes of activations of a micro-batch on a device."""
        if (remat, weigh) not in self._activations:
            self._activations[remat, weigh] = jaxprs.peak_bytes(self.program(remat), weigh)
        return self._activations[remat, weigh]

    def _compute_copy(self, layout: StateLayout) -> float:
        """The stacks' parameters in the type of the products, which the compiler makes before the loop."""
        if self.blueprint.dtype == "float32":
            return 0.0
        stacked = [leaf for leaf in (*layout.leaves, *layout.frozen_leaves) if leaf.stacked]
        return sum(2 * leaf.size / leaf.cut(layout.sizes) for leaf in stacked)

    def _batch_bytes(self, rows: int) -> int:
        if rows not in self._batches:
            loaded, prepared = self.blueprint.batch(rows), self.blueprint.prepared(rows)
            made = [leaf for name, leaf in prepared.items() if name not in loaded or loaded[name].dtype != leaf.dtype]
            self._batches[rows] = sum(map(bytes_of, [*loaded.values(), *made])) + rows * self.mixed
        return self._batches[rows]

    @functools.cached_property
    def mixed(self) -> int:
        """Bytes of the row that a row is mixed with, which lies on another device; 0 where rows stay by themselves."""
        prepare, batch = self.blueprint.prepare, self.blueprint.batch(ROWS)
        program = jaxprs.inlined(jax.make_jaxpr(lambda batch: prepare(batch, jax.random.key(0)))(batch))
        rolled = [program.avals[one.made[0]] for one in program.operations if one.kind == "concatenate"]
        return sum(bytes_of(aval) // ROWS for aval in rolled if aval.shape and aval.shape[0] == ROWS)


def bytes_of(aval: jaxprs.Sized) -> int:
    """Bytes of an array, from its shape and type."""
    return math.prod(aval.shape) * getattr(aval.dtype, "itemsize", 4)
