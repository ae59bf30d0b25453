"""Learning rate as a function of the step: warm-up, a shape, and an optional cooldown on top.

The rate for the batch with index `step` (0 for the first) is `schedule(step)`; it is logged at `step + 1`, when that
batch has been consumed. The peak is the optimizer's `learning_rate`. All values are float32.

    warm-up of w steps    peak · (start + (1 − start) · step / w) for step < w: the start at 0, the peak at w
    shape                 the peak at w; cosine and linear reach `final_fraction` · peak one past the last batch
    cooldown of c steps   what the shape gives · (total − step) / c over the last c steps: zero at the total

Training may end before its warm-up does (a trial of few steps): the peak is then never reached.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo import own_values
from vitzoo.errors import UserError
from vitzoo.registry import name_of
from vitzoo.schema import setting

Rate = Callable[[jax.Array | int], jax.Array]
"""Step (batches consumed before this one) to learning rate."""

_UNITS = ("steps", "epochs", "examples", "fraction")


def half_cosine(step: jax.Array, total: int) -> jax.Array:
    """From 1 at step 0 to 0 at `total`, and 0 from there on."""
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step / total, 1)))


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What all schedules share. A duration is given in one unit, and becomes the nearest number of steps."""

    warmup_steps: int = setting(0, "linear warm-up, in steps", minimum=0)
    warmup_epochs: float = setting(0.0, "linear warm-up, in epochs", minimum=0.0)
    warmup_examples: int = setting(0, "linear warm-up, in examples", minimum=0)
    warmup_fraction: float = setting(0.0, "linear warm-up, as a part of the training", minimum=0.0, maximum=1.0)
    initial_fraction: float = setting(
        0.0,
        "rate of the first batch, as a fraction of the peak",
        minimum=0.0,
        maximum=1.0,
        needs=(
            "a warm-up ({section}.warmup_steps)",
            lambda own: any(getattr(own, f"warmup_{unit}") for unit in _UNITS),
        ),
    )
    cooldown_steps: int = setting(0, "linear decay to zero at the end, in steps", minimum=0)
    cooldown_epochs: float = setting(0.0, "linear decay to zero at the end, in epochs", minimum=0.0)
    cooldown_examples: int = setting(0, "linear decay to zero at the end, in examples", minimum=0)
    cooldown_fraction: float = setting(0.0, "linear decay to zero at the end, as a part", minimum=0.0, maximum=1.0)

    def check(self) -> None:
        for what in ("warmup", "cooldown"):
            given = [name for unit in _UNITS if getattr(self, name := f"{what}_{unit}")]
            if len(given) > 1:
                raise UserError(given[1], getattr(self, given[1]), f"{given[0]} is set too; give one (0 is off)")

    def make(self, total_steps: int, batch_size: int, examples_per_epoch: int, peak: float) -> Rate:
        """The learning rate as a function of the step.

        Args:
            total_steps: length of the training.
            batch_size: examples in a global batch, whatever the accumulation.
            examples_per_epoch: size of the training split.
            peak: the optimizer's `learning_rate`.
        """
        warmup, cooldown = self.spans(total_steps, batch_size, examples_per_epoch)

        def rate(step: jax.Array | int) -> jax.Array:
            now = jnp.asarray(step, jnp.float32)
            factor = self.shape(jnp.maximum(now - warmup, 0), max(total_steps - warmup, 1))
            if warmup:
                factor *= self.initial_fraction + (1 - self.initial_fraction) * jnp.minimum(now / warmup, 1)
            if cooldown:
                factor *= jnp.clip((total_steps - now) / cooldown, 0, 1)
            return peak * factor

        return rate

    def spans(self, total_steps: int, batch_size: int, examples_per_epoch: int) -> tuple[int, int]:
        """Steps of the warm-up and of the cooldown; arguments as of `make`."""
        steps_per = {"steps": 1.0, "epochs": examples_per_epoch / batch_size, "examples": 1 / batch_size}
        steps_per["fraction"] = float(total_steps)
        return self._steps("warmup", steps_per), self._steps("cooldown", steps_per)

    def _steps(self, what: str, steps_per: dict[str, float]) -> int:
        exact = max(getattr(self, f"{what}_{unit}") * steps_per[unit] for unit in _UNITS)
        return max(1, round(exact)) if exact else 0

    def shape(self, step: jax.Array, total: int) -> jax.Array:
        """The fraction of the peak, `step` steps after a warm-up that leaves `total`: all of it, unless a schedule
        defines another.
        """
        return jnp.ones_like(step)


SAMPLED = 2**16
"""Steps of a long training at which a rate of a user's own is looked at; of a shorter one all."""


def rate_of(schedule: Schedule, total_steps: int, batch_size: int, examples_per_epoch: int, peak: float) -> Rate:
    """`Schedule.make`; one of a user's own is checked over the training.

    Raises:
        UserError: it gives something else than a number from 0 on.
    """
    rate = schedule.make(total_steps, batch_size, examples_per_epoch, peak)
    if not name_of(schedule):
        return rate
    method = "shape" if type(schedule).make is Schedule.make else "make"
    if method == "shape":
        _check_scalar(schedule, method, lambda step: schedule.shape(step, total_steps), jnp.float32)
    elif not callable(rate):
        raise own_values.refusal(schedule, method, rate, "a function of the step")
    _check_scalar(schedule, method, rate, jnp.int32)
    steps = np.unique(np.linspace(0, total_steps - 1, min(total_steps, SAMPLED)).astype(np.int32))
    rates = np.asarray(jax.jit(jax.vmap(rate))(steps))
    if not (good := (rates >= 0) & (rates < np.inf)).all():
        first = int(good.argmin())
        value = own_values.Wrong(f"a learning rate of {rates[first]:g} at step {steps[first]}")
        raise own_values.refusal(schedule, method, value, "a number from 0 on at every step")
    return rate


def _check_scalar(schedule: Schedule, method: str, function: Callable, step_type: type) -> None:
    def traced(step: jax.Array) -> Any:
        if not own_values.is_number(value := function(step)):
            raise own_values.refusal(schedule, method, value, "a number for each step")
        return value

    jax.eval_shape(traced, jax.ShapeDtypeStruct((), step_type))


@dataclasses.dataclass(frozen=True)
class Constant(Schedule):
    """The peak throughout."""


@dataclasses.dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from the peak to `final_fraction` (Loshchilov & Hutter 2017, one cycle)."""

    final_fraction: float = setting(0.0, "rate at the end, as a fraction of the peak", minimum=0.0, maximum=1.0)

    def shape(self, step: jax.Array, total: int) -> jax.Array:
        return self.final_fraction + (1 - self.final_fraction) * half_cosine(step, total)


@dataclasses.dataclass(frozen=True)
class Linear(Schedule):
    """A straight line from the peak to `final_fraction`."""

    final_fraction: float = setting(0.0, "rate at the end, as a fraction of the peak", minimum=0.0, maximum=1.0)

    def shape(self, step: jax.Array, total: int) -> jax.Array:
        return self.final_fraction + (1 - self.final_fraction) * (1 - jnp.minimum(step / total, 1))


@dataclasses.dataclass(frozen=True)
class InverseSquareRoot(Schedule):
    """1/√(1 + step/timescale) after the warm-up (Zhai et al. 2022, section 3.5): with a cooldown, training may be
    prolonged from any point before it.
    """

    timescale: int = setting(10_000, "steps after the warm-up until the rate is 1/√2 of the peak", minimum=1)

    def shape(self, step: jax.Array, total: int) -> jax.Array:
        return jax.lax.rsqrt(1 + step / self.timescale)
