"""Threads of one process take turns where they save: what Orbax saves with is one for the whole process."""

import functools
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
