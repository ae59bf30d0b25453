"""Whether a training fits on its devices, before anything is allocated."""

import jax

from vitzoo.planning.blueprint import Blueprint
from vitzoo.planning.memory import Estimator, Memory
from vitzoo.planning.topology import machine_memory
from vitzoo.steps.compile import batch_shapes
from vitzoo.training.setup import Task

_SMALL = 0.25  # a bound below this fraction of the memory is no reason to trace a step


def warning(task: Task) -> str:
    """What to say of a step that won't fit, in one line; empty where it does, or where it isn't known: the device
    doesn't say its memory, or sequences are cut, which no formula counts.
    """
    room = memory_of(task.mesh.devices.flat[0])
    cut = task.mesh.shape["sequence"] > 1
    if room is None or cut or _bound(task) < _SMALL * room:
        return ""
    needed = estimate(task).peak
    if needed <= room:
        return ""
    gib = 2**30
    return (
        f"a step takes about {needed / gib:,.1f} GiB of a device by formula, which has {room / gib:,.1f}: lower "
        "data.batch_size, raise accumulate (same result) or set remat=full; `vitzoo plan` finds what fits"
    )


def estimate(task: Task) -> Memory:
    """What a step of the training takes on each device."""
    experiment, shape = task.resolved.experiment, task.mesh.shape
    drawn = blueprint_of(task)
    layout = drawn.layout(dict(shape))
    return Estimator(drawn).memory(layout, experiment.remat, experiment.accumulate)


def blueprint_of(task: Task) -> Blueprint:
    """What the task's step is made of."""
    experiment, config = task.resolved.experiment, task.model_config
    row = batch_shapes(task.stream.rows.padding(), 1)
    return Blueprint(
        experiment=experiment,
        choice=task.choice,
        assembly=task.assembly,
        objective=task.objective,
        frozen=task.frozen_models.models,
        row={name: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for name, leaf in row.items()},
        prepare=task.inputs.prepare(config, task.info, train=True),
        examples=task.info.n,
        steps=task.total_steps,
        platform=task.mesh.devices.flat[0].platform,
        notes=(),
    )


def memory_of(device: jax.Device) -> float | None:
    """Bytes that programs get of a device; of a CPU's simulated devices, its part of the machine's memory."""
    if device.platform == "cpu":
        return machine_memory() / jax.local_device_count("cpu")
    stats = device.memory_stats() or {}
    return stats.get("bytes_limit")


def _bound(task: Task) -> float:
    """More bytes than a step can take: no token keeps more numbers than an eighth of the parameters."""
    numbers = sum(leaf.size for leaf in batch_shapes(task.stream.rows.padding(), 1).values())
    experiment, shape = task.resolved.experiment, task.mesh.shape
    rows = experiment.data.batch_size / (shape["data"] * shape["fsdp"] * experiment.accumulate)
    return 4 * task.parameters * (8 + numbers * rows / 8)
