"""SIGTERM and Ctrl-C as requests: the loop finishes its step, saves and leaves; a second Ctrl-C leaves at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class Signals:
    """While the block runs, `exit_code` is None until a signal asks the run to end: 75 by SIGTERM, 130 by Ctrl-C.

    `unsaved` says what is lost by leaving at once; whoever trains sets it.

    Outside the main thread (a notebook's worker) Python delivers no signals and nothing is installed.
    """

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.unsaved: Callable[[], str] = lambda: "nothing was begun"
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.exit_code == 130:
            print(f"SIGINT: ends at once, without saving: {self.unsaved()}", file=sys.stderr, flush=True)
            _leave()
        self.exit_code = 75 if number == signal.SIGTERM else 130
        again = " (Ctrl-C again ends at once, without saving)" if number == signal.SIGINT else ""
        print(f"{signal.Signals(number).name}: saving a checkpoint{again}", file=sys.stderr, flush=True)


def _leave() -> None:
    """End at once; a save in progress is simply dropped, since it is atomic."""
    if hasattr(sys, "ps1"):  # a notebook or a Python prompt goes on
        raise KeyboardInterrupt
    sys.stdout.flush()
    os._exit(130)  # an exception would still wait for the threads that write the checkpoint
