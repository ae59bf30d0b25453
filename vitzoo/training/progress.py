"""How far a run is (a bar on a terminal, a plain line now and then elsewhere), and where its time goes."""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO, TypeVar

from vitzoo import streams

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Shows steps, examples a second and the time left.

    Args:
        start: the step the run begins or resumes at.
        total: the step it ends at.
        batch_size: examples a step.
        stream: where to write; a bar is drawn only if it is a terminal.
        utilisation: examples a second → model FLOP utilisation (0..1), on an accelerator whose peak is known.
    """

    def __init__(
        self,
        start: int,
        total: int,
        batch_size: int,
        stream: TextIO,
        utilisation: Callable[[float], float] | None = None,
    ):
        self._total, self._batch_size, self._stream, self._utilisation = total, batch_size, stream, utilisation
        self.goodput = Goodput()
        self._mark: tuple[int, float] | None = None  # step and time since when the speed is taken
        self._paused = 0.0
        self._shown = 0.0
        self._rate = 0.0
        self._closed = False
        self._bar = _Bar(start, total, stream) if stream.isatty() else None
        if self._bar is None and start < total:
            self.say("compiling the first step ...")

    def step(self, step: int) -> None:
        """Count a step; the first only starts the clock, since it holds the compilation."""
        if self._mark is None:
            self._mark = (step, time.monotonic())
            self.goodput.compiled()
        elif (seconds := time.monotonic() - self._mark[1] - self._paused) > 0:
            self._rate = (step - self._mark[0]) * self._batch_size / seconds
        if self._bar:
            self._bar.show(step, self._speed(step))

    @contextlib.contextmanager
    def paused(self, part: str) -> Iterator[None]:
        """Leave what the block takes out of the speed: `evaluating`, or `saving`, a wait for the disk."""
        began = time.monotonic()
        with self.goodput.spending(part):
            yield
        self._paused += time.monotonic() - began if self._mark else 0.0

    def train_line(self, step: int, values: dict[str, Any]) -> None:
        """Report the training metrics of a step, every few seconds; a line that stays, above a terminal's bar."""
        if time.monotonic() - self._shown > _SECONDS_BETWEEN_LINES or step == self._total:
            self._shown = time.monotonic()
            text = "  ".join(f"{name} {_short(value)}" for name, value in values.items())
            self.say(f"step {step}/{self._total}  {text}{'' if self._bar else f'  {self._speed(step)}'}")

    def evaluation_line(self, step: int, name: str, values: dict[str, Any]) -> None:
        """Report an evaluator's metrics."""
        self.say(f"step {step}  {name}  " + "  ".join(f"{key} {_short(value)}" for key, value in values.items()))

    def say(self, text: str) -> None:
        """Write a line, above the bar where there is one."""
        if self._bar:
            self._bar.say(text)
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Ends the display; says where the time went, if there was any step."""
        if self._mark and not self._closed:
            self.say(str(self.goodput))
        self._closed = True
        if self._bar:
            self._bar.close()

    def _speed(self, step: int) -> str:
        if not self._rate:
            return ""
        left = datetime.timedelta(seconds=round((self._total - step) * self._batch_size / self._rate))
        used = f"  MFU {self._utilisation(self._rate):.1%}" if self._utilisation else ""
        return f"{self._rate:,.0f} examples/s{used}  {left} left"


class _Bar:
    """A line of at most 80 columns below all others, gone at the end: the bar, steps, speed and the time left."""

    def __init__(self, start: int, total: int, stream: TextIO):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            console=streams.console(stream),
            refresh_per_second=4,
            transient=True,
        )
        self._task = self._progress.add_task("", total=total, completed=start, speed="compiling")
        self._progress.start()

    def show(self, step: int, speed: str) -> None:
        self._progress.update(self._task, completed=step, speed=speed or "compiling")

    def say(self, text: str) -> None:
        self._progress.console.print(text, soft_wrap=True)

    def close(self) -> None:
        self._progress.stop()


def _short(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) >= 1e4:  # a count
        return f"{value:,.0f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


Made = TypeVar("Made")

LOST = ("compiling", "evaluating", "saving", "waiting")
"""What isn't training: making the step's program, evaluators, saves that the loop waits for, and data that come while
the device has nothing to do."""


class Goodput:
    """Measures from its making on, in this process. Parts don't overlap; what is in none of them is training."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._spent = dict.fromkeys(LOST, 0.0)

    @contextlib.contextmanager
    def spending(self, part: str) -> Iterator[None]:
        """What the block takes is part of `part`, one of `LOST`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._spent[part] += time.perf_counter() - began

    def compiled(self) -> None:
        """The first step was handed to the device: what is in no part so far was spent on its program."""
        self._spent["compiling"] += time.perf_counter() - self._began - sum(self._spent.values())

    def waiting(self, batches: Iterator[Made], busy: Callable[[], bool]) -> Iterator[Made]:
        """The batches; the wait for one is lost if the device has no work left by the time it comes.

        Args:
            busy: whether the device has work.
        """
        while True:
            began = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            if not busy():
                self._spent["waiting"] += time.perf_counter() - began
            yield batch

    def shares(self) -> dict[str, float]:
        """Of the time so far, 0 to 1: `training`, and each of `LOST`. They add up to 1."""
        whole = max(time.perf_counter() - self._began, 1e-9)
        lost = {part: round(seconds / whole, 4) for part, seconds in self._spent.items()}
        return {"training": round(1 - sum(lost.values()), 4), **lost}

    def __str__(self) -> str:
        """The shares in words: `time    93.1 % training, 4.0 % compiling, ...`."""
        shares = [f"{100 * share:.1f} % {part}" for part, share in self.shares().items() if share >= 0.0005]
        return f"time    {', '.join(shares)}"
