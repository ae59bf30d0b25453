"""Where a run's time goes: to training, or to what training waits for."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

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

    def waiting(self, batches: Iterator[Any], busy: Callable[[], bool]) -> Iterator[Any]:
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
