"""When something is due, every so many steps, epochs or examples, and at the end; and when a run is saved.

A run is saved as its config says, or else so often that a kill costs little.
"""

import time
from fractions import Fraction
from typing import Any

import jax

from vitzoo.planning.training_data import exact
from vitzoo.training.setup import Task

UNLESS_SET = 10  # saves of a run whose config sets no interval
MINUTES = 10.0  # and the most that such a run goes without one
SEVERAL_PROCESSES = 50  # saves in place of both: processes can't agree on the time


class Saving:
    """Knows when the next checkpoint is due.

    Args:
        task: the training.
    """

    def __init__(self, task: Task):
        self._config, self._total = task.resolved.experiment.checkpoint, task.total_steps
        own = period(self._config, task.resolved.experiment.data.batch_size, task.info.n)
        timed = own is None and jax.process_count() == 1
        saves = UNLESS_SET if timed else SEVERAL_PROCESSES
        self._period = own or Fraction(max(1, self._total // saves))
        self._minutes = MINUTES if timed else None
        self._saved = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether a checkpoint is to be saved at this step."""
        late = self._minutes is not None and time.monotonic() - self._saved > 60 * self._minutes
        return late or due(step, self._period)

    def done(self) -> None:
        """One was saved."""
        self._saved = time.monotonic()

    def __str__(self) -> str:
        """How often, and what stays, in words."""
        times = []
        if self._period < self._total:
            times.append(f"every {_interval(self._config) or _counted(int(self._period), 'step')}")
        if self._minutes is not None:
            times.append(f"at least every {self._minutes:g} minutes")
        when = f"{', '.join(times)} and at the end" if times else "at the end only"
        best = f" and the best by {self._config.keep_best}" if self._config.keep_best else ""
        newest = "newest" if self._config.keep == 1 else f"newest {self._config.keep}"
        return f"{when}; the {newest}{best} {'stays' if self._config.keep == 1 and not best else 'stay'}"


def _interval(config: Any) -> str:
    if config.every_steps is not None:
        return _counted(config.every_steps, "step")
    return _counted(config.every_epochs, "epoch") if config.every_epochs is not None else ""


def _counted(number: float, unit: str) -> str:
    return unit if number == 1 else f"{number:,g} {unit}s" if number < 1e5 else f"{number:,.0f} {unit}s"


def due(step: int, period: Fraction | None) -> bool:
    """Whether a multiple of `period` (in steps, not always whole) lies in (step − 1, step]."""
    return period is not None and step // period > (step - 1) // period


def period(part: Any, batch_size: int, examples: int) -> Fraction | None:
    """The steps between two times, from a part's `every_steps`, `every_epochs` or `every_examples`; None without one.

    Args:
        part: a section or evaluator of the config.
        batch_size: examples a step.
        examples: examples an epoch.
    """
    if (steps := getattr(part, "every_steps", None)) is not None:
        return Fraction(steps)
    if (epochs := getattr(part, "every_epochs", None)) is not None:
        return exact(epochs) * examples / batch_size
    if (number := getattr(part, "every_examples", None)) is not None:
        return Fraction(number, batch_size)
    return None
