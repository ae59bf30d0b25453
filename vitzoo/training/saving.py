"""When something is due, every so many steps, epochs or examples, and at the end; and when a run is saved.

A run is saved as its config says, or else so often that a kill costs little. SIGTERM and Ctrl-C are requests: the loop
finishes its step, saves and leaves; a second Ctrl-C leaves at once.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from types import FrameType, TracebackType

import jax

from vitzoo.config.experiment import Checkpoint, Log
from vitzoo.evaluation.settings import Evaluator
from vitzoo.parallel import processes
from vitzoo.planning.training_data import exact
from vitzoo.training.setup import Task

UNLESS_SET = 10  # saves of a run whose config sets no interval
MINUTES = 10.0  # and the most that such a run goes without one
SEVERAL_PROCESSES = 50  # saves in place of both: processes can't agree on the time

_INTERRUPTED = "vitzoo/interrupted"


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


def _interval(config: Checkpoint) -> str:
    if config.every_steps is not None:
        return _counted(config.every_steps, "step")
    return _counted(config.every_epochs, "epoch") if config.every_epochs is not None else ""


def _counted(number: float, unit: str) -> str:
    return unit if number == 1 else f"{number:,g} {unit}s" if number < 1e5 else f"{number:,.0f} {unit}s"


def due(step: int, period: Fraction | None) -> bool:
    """Whether a multiple of `period` (in steps, not always whole) lies in (step − 1, step]."""
    return period is not None and step // period > (step - 1) // period


def period(part: Checkpoint | Log | Evaluator, batch_size: int, examples: int) -> Fraction | None:
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


class Signals:
    """While the block runs, `exit_code` is None until `poll` sees that a signal asked to end: 75 by SIGTERM, 130 by
    Ctrl-C. Of several processes each may get the signal; all of them see it in the same call of `poll`.

    `unsaved` says what is lost by leaving at once; whoever trains sets it.

    Outside the main thread (a notebook's worker) Python delivers no signals and nothing is installed.
    """

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.unsaved: Callable[[], str] = lambda: "nothing was begun"
        self._before: dict[int, object] = {}
        self._asked_code: int | None = None
        self._together = processes.agrees_on_preemption()
        self._polls = 0

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            # of several processes JAX's runtime takes SIGTERM, and tells the others
            for number in (signal.SIGINT,) if self._together else (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def poll(self) -> int | None:
        """Look whether to end; every process has to call it equally often."""
        if self.exit_code is None and self._together:
            self._polls += 1
            if processes.is_preempted(self._polls):
                self.exit_code = 130 if processes.look_up(_INTERRUPTED) else 75
                if processes.is_first():
                    print("asked to end: saving a checkpoint", file=sys.stderr, flush=True)
        elif self.exit_code is None:
            self.exit_code = self._asked_code
        return self.exit_code

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._asked_code == 130:
            print(f"SIGINT: ends at once, without saving: {self.unsaved()}", file=sys.stderr, flush=True)
            _leave()
        self._asked_code = 75 if number == signal.SIGTERM else 130
        if self._together:  # Ctrl-C, which the runtime doesn't know: it is told to the others as a preemption
            processes.note(_INTERRUPTED)
            signal.raise_signal(signal.SIGTERM)
            return
        again = " (Ctrl-C again ends at once, without saving)" if number == signal.SIGINT else ""
        print(f"{signal.Signals(number).name}: saving a checkpoint{again}", file=sys.stderr, flush=True)


def _leave() -> None:
    """End at once; a save in progress is simply dropped, since it is atomic."""
    if hasattr(sys, "ps1"):  # a notebook or a Python prompt goes on
        raise KeyboardInterrupt
    sys.stdout.flush()
    os._exit(130)  # an exception would still wait for the threads that write the checkpoint
