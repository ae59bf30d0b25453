"""A training step on a mesh, forecast by formula: what it holds, computes and sends, and how long it takes at least.

What devices send follows the ways in which such a program is compiled. Over n devices in a ring a gather of the whole
from its parts, or a sum of which each keeps its part, sends (n - 1) / n of the whole from every device; a sum of which
each keeps the whole is both, one after the other.
"""

import dataclasses
from collections.abc import Mapping

from vitzoo.parallel.mesh import AXES
from vitzoo.planning.blueprint import Blueprint
from vitzoo.planning.jaxprs import Operation, Program
from vitzoo.planning.layout import Leaf, StateLayout
from vitzoo.planning.memory import Estimator, Memory, OnDevice
from vitzoo.planning.topology import Topology


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Bytes that each device sends in a step.

    Attributes:
        gathers: of weights that lie over `fsdp`: before the forward and before the backward pass of each micro-batch,
            which of frozen models there is none.
        reductions: of their gradients, each device keeping its part.
        sums: of gradients over `data`, and of those that lie whole over `fsdp`.
        tensor: of activations over `tensor`, those of frozen models left out.
        rows: of the batch, where each row is mixed with one of another device.
    """

    gathers: float
    reductions: float
    sums: float
    tensor: float
    rows: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.gathers + self.reductions + self.sums + self.tensor + self.rows


def traffic(
    layout: StateLayout, program: Program, weigh: OnDevice, remat: str, accumulate: int, itemsize: int, mixed: int = 0
) -> Traffic:
    """What a step sends.

    Args:
        layout: of the state.
        program: of a micro-batch, its layers in loops.
        weigh: what lies on a device.
        remat: the policy.
        accumulate: micro-batches.
        itemsize: bytes of a number in products, of which gathered weights and gradients under way are.
        mixed: bytes of a device's rows that others are mixed with.
    """
    sizes = layout.sizes
    gathers = reductions = sums = 0.0
    for leaf in layout.leaves:
        part = leaf.size * itemsize / leaf.cut({**sizes, "fsdp": 1})
        if "fsdp" in leaf.placed:
            # a loop's weights are gathered anew in its backward pass; others are kept
            gathers += (2 if leaf.stacked else 1) * part * _ring_fraction(sizes["fsdp"])
            reductions += part * _ring_fraction(sizes["fsdp"])
        sums += 2 * _summed(leaf, sizes, itemsize)
    for leaf in layout.frozen_leaves:
        if "fsdp" in leaf.placed:
            gathers += leaf.size * itemsize / leaf.cut({**sizes, "fsdp": 1}) * _ring_fraction(sizes["fsdp"])
    tensor = 2 * _ring_fraction(sizes["tensor"]) * _shared_sums(layout, program, weigh, remat)
    return Traffic(
        gathers=accumulate * gathers,
        reductions=accumulate * reductions,
        sums=accumulate * sums,
        tensor=accumulate * tensor,
        rows=mixed if sizes["data"] * sizes["fsdp"] > 1 else 0,
    )


def _ring_fraction(count: int) -> float:
    return (count - 1) / count


def _summed(leaf: Leaf, sizes: Mapping[str, int], itemsize: int) -> float:
    """Bytes of the gradient that devices with the same part of a leaf sum up, one way."""
    copies = sizes["data"] * (1 if "fsdp" in leaf.placed else sizes["fsdp"])
    return leaf.size * itemsize / leaf.cut(sizes) * _ring_fraction(copies)


def _shared_sums(layout: StateLayout, program: Program, weigh: OnDevice, remat: str) -> float:
    """Bytes of the sums over devices that share layers: in the forward pass what an output or down projection gives, in
    the backward pass the gradient of what attention or an MLP is given. Full remat does those of the forward pass
    again, but for a layer's last.
    """
    if weigh.tensor == 1:
        return 0.0
    loops = [one for one in program.operations if one.body is not None and _stream(program, one, weigh)]
    stacks = sorted({leaf.stack for leaf in layout.leaves if leaf.stacked}, key=lambda name: (name != "encoder", name))
    total = 0.0
    for stack, loop in zip(stacks, loops[: len(stacks)], strict=False):
        sums = sum(leaf.gives_parts for leaf in layout.leaves if leaf.stack == stack)
        again = max(sums - 1, 0) if remat == "full" else 0
        total += loop.length * _stream(program, loop, weigh) * (2 * sums + again)
    return total


def _stream(program: Program, loop: Operation, weigh: OnDevice) -> float:
    """Bytes of the tokens that a loop over layers carries on."""
    carried = [program.avals[var] for var in loop.made[: loop.carried]]
    return max((weigh.array(aval) for aval in carried if weigh.grows(aval)), default=0.0)


MARGIN = 0.9
"""Share of the capacity that a formula may fill; what it leaves is its own error."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a step is run.

    Attributes:
        mesh: devices of data, fsdp, tensor and sequence; of the last 1, as no formula counts it.
        remat: what the backward pass computes anew.
        accumulate: micro-batches.
    """

    mesh: tuple[int, int, int, int]
    remat: str
    accumulate: int

    @property
    def sizes(self) -> dict[str, int]:
        """The mesh by axis."""
        return dict(zip(AXES, self.mesh, strict=True))

    @property
    def shown_mesh(self) -> str:
        """The mesh as a config writes it."""
        return ",".join(f"{axis}:{size}" for axis, size in self.sizes.items() if size > 1) or "data:1"

    @property
    def flags(self) -> str:
        """The setting as a command line writes it."""
        return f"--config.mesh={self.shown_mesh} --config.remat={self.remat} --config.accumulate={self.accumulate}"


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The forecast of a setting.

    Attributes:
        memory: on the fullest device.
        capacity: of a device.
        flops: of a step, all devices together.
        traffic: bytes that each device sends.
        seconds: least time of a step by what limits it: `compute`, `memory`, `interconnect`; empty where no peak of
            the device is known.
        batch_size: examples of a step.
    """

    setting: Setting
    memory: Memory
    capacity: float
    flops: int
    traffic: Traffic
    seconds: Mapping[str, float]
    batch_size: int

    @property
    def fits(self) -> bool:
        """Whether it has room, with the margin that a formula needs."""
        return self.memory.peak <= MARGIN * self.capacity

    @property
    def seconds_min(self) -> float | None:
        """The least time of a step; None where no peak is known."""
        return max(self.seconds.values()) if self.seconds else None

    @property
    def bound(self) -> str:
        """What limits it."""
        return max(self.seconds, key=self.seconds.__getitem__) if self.seconds else ""

    @property
    def order(self) -> tuple[float, ...]:
        """Smaller is better: time, half-way between all work at once (`seconds_min`) and one after the other, where a
        peak is known; then FLOPs, bytes sent, micro-batches, memory.
        """
        time = 0.0 if self.seconds_min is None else (self.seconds_min + sum(self.seconds.values())) / 2
        return float(f"{time:.3g}"), self.flops, self.traffic.total, self.setting.accumulate, self.memory.peak


class Forecast:
    """Forecasts settings of one training on one topology.

    Args:
        estimator: of the same model, to take over what it has traced.
    """

    def __init__(self, blueprint: Blueprint, topology: Topology, estimator: Estimator | None = None):
        self.blueprint, self.topology = blueprint, topology
        self.estimator = Estimator(blueprint, estimator)
        self._layouts: dict[tuple[int, int, int, int], StateLayout] = {}

    def on(self, topology: Topology) -> "Forecast":
        """The same training elsewhere."""
        return Forecast(self.blueprint, topology, self.estimator)

    def with_batch(self, size: int) -> "Forecast":
        """The same training with another batch size."""
        experiment = self.blueprint.experiment
        changed = dataclasses.replace(experiment, data=dataclasses.replace(experiment.data, batch_size=size))
        return Forecast(dataclasses.replace(self.blueprint, experiment=changed), self.topology, self.estimator)

    def layout(self, mesh: tuple[int, int, int, int]) -> StateLayout:
        """The state on a mesh."""
        if mesh not in self._layouts:
            sizes = dict(zip(AXES, mesh, strict=True))
            self._layouts[mesh] = self.blueprint.layout(sizes)
        return self._layouts[mesh]

    def __call__(self, setting: Setting) -> Estimate:
        """The forecast; the batch must divide over mesh and micro-batches."""
        layout, estimator = self.layout(setting.mesh), self.estimator
        itemsize = 4 if self.blueprint.dtype == "float32" else 2
        weigh = estimator.on_device(layout, setting.accumulate)
        memory = estimator.memory(layout, setting.remat, setting.accumulate)
        flops = estimator.flops(setting.remat)
        looped = estimator.looped(setting.remat)
        mixed = weigh.rows * setting.accumulate * estimator.mixed
        sent = traffic(layout, looped, weigh, setting.remat, setting.accumulate, itemsize, mixed)
        return Estimate(
            setting=setting,
            memory=memory,
            capacity=self.topology.capacity,
            flops=flops,
            traffic=sent,
            seconds=self._seconds(layout, flops, sent, setting, itemsize),
            batch_size=self.blueprint.experiment.data.batch_size,
        )

    def _seconds(
        self, layout: StateLayout, flops: int, sent: Traffic, setting: Setting, itemsize: int
    ) -> dict[str, float]:
        topology, device = self.topology, self.topology.device
        peak = topology.peak(self.blueprint.dtype)
        if peak is None or device.bandwidth is None or topology.interconnect is None:
            return {}
        # the state is read and written but for what is frozen, and each micro-batch's passes read the weights
        frozen = sum(leaf.size for leaf in layout.frozen_leaves)
        weights = itemsize * (2 * self.blueprint.parameters + frozen) / setting.mesh[2]
        moved = 2 * (layout.parameters + layout.optimizer - layout.frozen) + setting.accumulate * weights
        return {
            "compute": flops / (topology.count * peak),
            "memory": moved / device.bandwidth,
            "interconnect": sent.total / topology.interconnect,
        }
