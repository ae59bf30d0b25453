"""The fastest setting that fits, by formula, among meshes, remat policies and micro-batches; else the nearest one."""

import dataclasses
import math
from collections.abc import Iterator

from vitzoo.config import Resolved
from vitzoo.errors import UserError
from vitzoo.parallel.mesh import AXES, parse_mesh
from vitzoo.planning.estimate import Estimate, Forecast, Setting
from vitzoo.planning.topology import Topology

REMAT = ("none", "dots", "full")
WIDEST = 16
"""Devices that share a layer at most: beyond that the sums of activations outweigh all."""


@dataclasses.dataclass(frozen=True)
class Fixed:
    """What the config states, and the search leaves alone; None is open."""

    mesh: str | None = None
    remat: str | None = None
    accumulate: int | None = None


def fixed_by(resolved: Resolved) -> Fixed:
    """What a resolved config states of itself, in its file or by a flag; `mesh=auto` states nothing.

    Args:
        resolved: from `vitzoo.config.resolve`.
    """
    experiment, sources = resolved.experiment, resolved.sources

    def stated(name: str) -> bool:
        return sources.get(name) in ("file", "flag")

    return Fixed(
        mesh=experiment.mesh if stated("mesh") and experiment.mesh != "auto" else None,
        remat=experiment.remat if stated("remat") else None,
        accumulate=experiment.accumulate if stated("accumulate") else None,
    )


def settings(forecast: Forecast, fixed: Fixed) -> Iterator[Setting]:
    """Every setting that divides the devices and the batch.

    Raises:
        UserError: a mesh of another number of devices, or one that cuts sequences.
    """
    batch = forecast.blueprint.experiment.data.batch_size
    for mesh in _meshes(forecast, fixed):
        shards = mesh[0] * mesh[1]
        if batch % shards:
            continue
        rows = batch // shards
        counts = (fixed.accumulate,) if fixed.accumulate else _powers(rows)
        for accumulate in counts:
            if rows % accumulate == 0:
                for remat in (fixed.remat,) if fixed.remat else REMAT:
                    yield Setting(mesh, remat, accumulate)


def ranked(forecast: Forecast, fixed: Fixed) -> list[Estimate]:
    """Every setting's forecast: those that fit first, the fastest first; of those that don't, the smallest first.

    Raises:
        UserError: no mesh divides the batch.
    """
    found = [forecast(setting) for setting in settings(forecast, fixed)]
    if not found:
        raise _indivisible(forecast, fixed)
    fitting = sorted((one for one in found if one.fits), key=lambda one: one.order)
    return fitting + sorted((one for one in found if not one.fits), key=lambda one: one.memory.peak)


def _meshes(forecast: Forecast, fixed: Fixed) -> Iterator[tuple[int, int, int, int]]:
    count = forecast.topology.count
    if fixed.mesh is not None:
        sizes = parse_mesh(fixed.mesh)
        if sizes.get("sequence", 1) > 1:
            raise UserError("mesh", fixed.mesh, "no forecast counts the axis sequence; leave it out to plan the rest")
        mesh = (sizes.get("data", 1), sizes.get("fsdp", 1), sizes.get("tensor", 1), 1)
        product = math.prod(mesh)
        if product != count:
            raise UserError("mesh", fixed.mesh, f"takes {product} devices, but {forecast.topology} has {count}")
        yield mesh
        return
    for tensor in _divisors(count):
        for fsdp in _divisors(count // tensor):
            mesh = (count // tensor // fsdp, fsdp, tensor, 1)
            if tensor == 1 or (tensor <= WIDEST and _shares_layers(forecast, mesh)):
                yield mesh


def _shares_layers(forecast: Forecast, mesh: tuple[int, int, int, int]) -> bool:
    """Whether every leaf that `tensor` should cut is cut where it should be."""
    leaves = forecast.layout(mesh).leaves
    wanted = [leaf for leaf in leaves if "tensor" in leaf.wanted and leaf.stacked]
    return bool(wanted) and all(leaf.placed.get("tensor") == leaf.wanted["tensor"] for leaf in wanted)


def _indivisible(forecast: Forecast, fixed: Fixed) -> UserError:
    batch, count = forecast.blueprint.experiment.data.batch_size, forecast.topology.count
    sizes = parse_mesh(fixed.mesh) if fixed.mesh else {"fsdp": count}
    unit = (fixed.accumulate or 1) * sizes.get("data", 1) * sizes.get("fsdp", 1)
    near = ", ".join(str(size) for size in (batch // unit * unit, (batch // unit + 1) * unit) if size)
    over = ",".join(f"{axis}:{sizes[axis]}" for axis in AXES if sizes.get(axis, 1) > 1) or "data:1"
    message = f"does not divide over {over} with accumulate = {fixed.accumulate or 1} (nearest: {near})"
    return UserError("data.batch_size", batch, message)


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _powers(rows: int) -> list[int]:
    """Powers of two that divide `rows`, and `rows` itself: one example at a time."""
    found = [2**power for power in range(rows.bit_length()) if rows % 2**power == 0]
    return [*found, rows] if rows not in found else found


LEAST_BATCH = 1


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change after which it fits.

    Attributes:
        flags: what to add to the command.
        estimate: what is then fastest.
    """

    flags: str
    estimate: Estimate


def nearest(forecast: Forecast, fixed: Fixed) -> Remedy | None:
    """The first of these that fits: what the config states left open, a smaller batch, more devices; None: nothing."""
    for candidate in (*_opened(forecast, fixed), *_smaller(forecast, fixed), *_larger(forecast, fixed)):
        if candidate is not None:
            return candidate
    return None


def refusal(forecast: Forecast, fixed: Fixed, least: Estimate) -> UserError:
    """What is said of a topology on which nothing fits.

    Args:
        least: the forecast that takes least memory.
    """
    gib = 2**30
    needs = f"needs {least.memory.peak / gib:,.1f} GiB a device at least, of {least.capacity / gib:,.1f}"
    how = f"with {least.setting.shown_mesh}, remat={least.setting.remat}, accumulate={least.setting.accumulate}"
    found = nearest(forecast, fixed)
    hint = "nothing larger of this kind would do" if found is None else f"nearest that fits: {found.flags}"
    return UserError("topology", str(forecast.topology), f"{needs} ({how}; formula); {hint}")


def _opened(forecast: Forecast, fixed: Fixed) -> Iterator[Remedy | None]:
    """With what was stated of accumulation, of remat, of both, of the mesh left to the search."""
    for names in (("accumulate",), ("remat",), ("accumulate", "remat"), ("mesh",), ("mesh", "accumulate", "remat")):
        if any(getattr(fixed, name) is not None for name in names):
            best = _best(forecast, dataclasses.replace(fixed, **dict.fromkeys(names)))
            if best is not None:
                stated = [name for name in names if getattr(fixed, name) is not None]
                values = {"mesh": best.setting.shown_mesh, "remat": best.setting.remat}
                values["accumulate"] = str(best.setting.accumulate)
                yield Remedy(" ".join(f"--config.{name}={values[name]}" for name in stated), best)


def _smaller(forecast: Forecast, fixed: Fixed) -> Iterator[Remedy | None]:
    size = forecast.blueprint.experiment.data.batch_size // 2
    while size >= LEAST_BATCH:
        best = _best(forecast.with_batch(size), fixed)
        if best is not None:
            yield Remedy(f"--config.data.batch_size={size}", best)
            return
        size //= 2


def _larger(forecast: Forecast, fixed: Fixed) -> Iterator[Remedy | None]:
    topology: Topology | None = forecast.topology.larger
    while topology is not None:
        best = _best(forecast.on(topology), dataclasses.replace(fixed, mesh=None))
        if best is not None:
            mesh = f" --config.mesh={best.setting.shown_mesh}" if fixed.mesh else ""
            yield Remedy(f"--topology {topology}{mesh}", best)
            return
        topology = topology.larger


def _best(forecast: Forecast, fixed: Fixed) -> Estimate | None:
    try:
        first = ranked(forecast, fixed)[0]
    except UserError:  # the batch doesn't divide
        return None
    return first if first.fits else None
