"""SIGTERM and Ctrl-C as requests: the loop finishes its step, saves and leaves; a second Ctrl-C leaves at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from vitzoo.parallel import processes

_INTERRUPTED = "vitzoo/interrupted"


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
