"""How Orbax behaves in our process: silent, as what went wrong is one line of ours, and for one thread at a time."""

import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar


class _WithoutOrbax(logging.Filter):
    """Drops what Orbax logs: notes on its own files, tracebacks of errors that we report."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "orbax" not in (record.pathname if record.name == "absl" else _whole(record))


def _whole(record: logging.LogRecord) -> str:
    trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
    return record.getMessage() + trace


def quiet() -> None:
    """From here on Orbax is silent; calling it twice is harmless."""
    for name in ("absl", "asyncio"):
        logger = logging.getLogger(name)
        if not any(isinstance(one, _WithoutOrbax) for one in logger.filters):
            logger.addFilter(_WithoutOrbax())
    if sys.unraisablehook is not _unraisable:
        global _before
        _before, sys.unraisablehook = sys.unraisablehook, _unraisable


def cause_of(error: BaseException) -> str:
    """Why the system refused, out of an error of Orbax or TensorStore: `No space left on device`."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    code = re.search(r"os_error_code='(\d+)'", str(error))
    return os.strerror(int(code.group(1))) if code else text[:300]


def is_orbax_waiting() -> bool:
    """Whether threads of Orbax are left: after a save that failed they wait for folders that nobody will make."""
    return any(type(thread).__module__.startswith("orbax") and not thread.daemon for thread in threading.enumerate())


_before = sys.unraisablehook


def _unraisable(report: Any) -> None:
    # after a failed save TensorStore's threads still report to a loop that Orbax has closed
    if not (report.exc_type is RuntimeError and str(report.exc_value) == "Event loop is closed"):
        _before(report)


P = ParamSpec("P")
R = TypeVar("R")
_turn = threading.RLock()


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """A function that saves checkpoints: of all such functions one thread calls one at a time, and the others wait. A
    training also has the devices.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _turn.acquire(blocking=False):
            print("note    waits for another thread of this process, which saves", file=sys.stderr, flush=True)
            _turn.acquire()
        try:
            return function(*args, **kwargs)
        finally:
            _turn.release()

    return call
