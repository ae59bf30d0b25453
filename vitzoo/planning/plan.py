"""The forecast of a config on a topology: the fastest setting that fits, and what it costs."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from vitzoo.config import Resolved
from vitzoo.config.model import ModelChoice
from vitzoo.data.described import ModelDescription
from vitzoo.data.inputs import Inputs
from vitzoo.errors import UserError
from vitzoo.planning import jaxprs, search, tpu_compiler
from vitzoo.planning.blueprint import Blueprint, blueprint
from vitzoo.planning.estimate import Estimate, Forecast, Setting
from vitzoo.planning.layout import Fallback
from vitzoo.planning.topology import Topology
from vitzoo.planning.tpu_compiler import Compiled

SHOWN = 4
"""Runners-up in the table."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be expected.

    Attributes:
        blueprint: the training.
        topology: where it runs.
        ranked: the winner first, then others that fit, the fastest first.
        compiled: what the compiler says, by setting.
        fallbacks: parameters that the winner's mesh doesn't cut where the rules want.
        flops: of a step, counted on the whole step.
        price: of a device for an hour; None where it isn't said.
    """

    blueprint: Blueprint
    topology: Topology
    ranked: tuple[Estimate, ...]
    compiled: Mapping[Setting, Compiled]
    fallbacks: tuple[Fallback, ...]
    flops: int
    price: float | None = None

    @property
    def winner(self) -> Estimate:
        """The setting that is taken."""
        return self.ranked[0]

    @property
    def source(self) -> str:
        """Where the winner's memory is known from: `xla` or `formula`."""
        return "xla" if self.winner.setting in self.compiled else "formula"

    @property
    def peak(self) -> int:
        """Bytes of a device that the winner takes."""
        known = self.compiled.get(self.winner.setting)
        return self.winner.memory.peak if known is None else known.peak

    @property
    def days(self) -> float | None:
        """The least time of the training; None where its length or the device's peak isn't known."""
        seconds, steps = self.winner.seconds_min, self.blueprint.steps
        return None if seconds is None or steps is None else seconds * steps / 86_400

    @property
    def device_hours(self) -> float | None:
        """The same, times the devices."""
        return None if self.days is None else 24 * self.days * self.topology.count

    @property
    def cost(self) -> float | None:
        """In the currency of `price`."""
        return None if self.price is None or self.device_hours is None else self.price * self.device_hours

    def to_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        memory, setting = self.winner.memory, self.winner.setting
        known = self.compiled.get(setting)
        return {
            "topology": str(self.topology),
            "mesh": setting.shown_mesh,
            "remat": setting.remat,
            "accumulate": setting.accumulate,
            "fits": True,
            "bytes_per_device": {
                "parameters": memory.parameters,
                "optimizer": memory.optimizer,
                "gradients": memory.gradients,
                "batch": memory.batch,
                "activations": memory.activations,
                "peak": self.peak,
                "capacity": self.topology.capacity,
                "peak_formula": memory.peak,
                "peak_xla": None if known is None else known.peak,
                "blocks_xla": None if known is None else known.arguments + known.temporary,
            },
            "source": self.source,
            "flops_per_step": self.flops,
            "collective_bytes": self.winner.traffic.total,
            "seconds_per_step_min": self.winner.seconds_min,
            "bound_by": self.winner.bound or None,
            "steps": self.blueprint.steps,
            "days": self.days,
            "device_hours": self.device_hours,
            "cost": self.cost,
            "runners_up": [_row(one, self.compiled) for one in self.ranked[1 : SHOWN + 1]],
            "fallbacks": [dataclasses.asdict(one) for one in self.fallbacks],
            "notes": list(self.blueprint.notes),
        }


def plan(
    resolved: Resolved,
    topology: Topology,
    *,
    choice: ModelChoice | None = None,
    inputs: Inputs | None = None,
    examples: int | None = None,
    frozen: Mapping[str, ModelDescription] = MappingProxyType({}),
    price: float | None = None,
    runners_up: int = 0,
    compiles: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Forecasts a training. What the config states of mesh, remat and accumulate is kept, the rest is searched.

    Args:
        resolved: the config.
        topology: from `planning.topology.parse`.
        choice, inputs: the model and how examples are read, where a checkpoint says it.
        examples: rows of an epoch, where the config's data don't say.
        frozen: what the checkpoints that the objective names say of themselves, by setting.
        price: of a device for an hour.
        runners_up: how many besides the winner are compiled.
        compiles: whether any is, where that is possible.
        say: is told what takes its time.

    Raises:
        UserError: nothing fits (the nearest that does is named), or settings don't fit each other.
    """
    drawn = blueprint(resolved.experiment, topology.device.platform, choice, examples, frozen, inputs)
    forecast, fixed = Forecast(drawn, topology), search.fixed_by(resolved)
    ranked = search.ranked(forecast, fixed)
    if not ranked[0].fits:
        raise search.refusal(forecast, fixed, ranked[0])
    fitting = [one for one in ranked if one.fits]
    compiled: dict[Setting, Compiled] = {}
    if compiles and tpu_compiler.is_available(topology):
        fitting, compiled = _compile(resolved, forecast, fitting, runners_up, say)
    winner = fitting[0].setting
    whole = drawn.batch(resolved.experiment.data.batch_size)
    return Plan(
        blueprint=drawn,
        topology=topology,
        ranked=tuple(fitting),
        compiled=compiled,
        fallbacks=tuple(forecast.layout(winner.mesh).fallbacks),
        flops=jaxprs.count_flops(drawn.step(winner.remat, winner.accumulate), drawn.state, whole, 0),
        price=price,
    )


def _compile(
    resolved: Resolved, forecast: Forecast, fitting: list[Estimate], runners_up: int, say: Callable[[str], None]
) -> tuple[list[Estimate], dict[Setting, Compiled]]:
    """What the compiler says of the first settings; those that it has no room for are left out.

    Raises:
        UserError: it has room for none of them.
    """
    compiled: dict[Setting, Compiled] = {}
    for one in fitting[: 1 + runners_up]:
        say(f"compiling {one.setting.shown_mesh}, remat={one.setting.remat}, accumulate={one.setting.accumulate} ...")
        compiled[one.setting] = tpu_compiler.compile_step(resolved, forecast.blueprint, forecast.topology, one.setting)
    fit = [one for one in fitting if one.setting not in compiled or compiled[one.setting].fits]
    if fit and fit[0].setting in compiled:
        return fit, compiled
    peak = min(known.peak for known in compiled.values()) / 2**30
    message = (
        f"compiled it needs {peak:,.1f} GiB a device of {forecast.topology.capacity / 2**30:,.1f}; "
        f"--compile {2 * len(compiled)} tries more settings, and --config.remat=full takes less"
    )
    raise UserError("topology", str(forecast.topology), message)


def _row(one: Estimate, compiled: Mapping[Setting, Compiled]) -> dict[str, Any]:
    known = compiled.get(one.setting)
    return {
        "mesh": one.setting.shown_mesh,
        "remat": one.setting.remat,
        "accumulate": one.setting.accumulate,
        "peak": one.memory.peak,
        "peak_xla": None if known is None else known.peak,
        "collective_bytes": one.traffic.total,
        "seconds_per_step_min": one.seconds_min,
    }
