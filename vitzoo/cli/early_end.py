"""SIGTERM before a training has begun, or once it is over: there is nothing to save, and the same command goes on."""

import os
import signal
from collections.abc import Sequence
from types import FrameType

PREEMPTED = 75
TRAINS = ("train", "sweep")


def leave_on_sigterm(arguments: Sequence[str]) -> None:
    """Lets a command that trains exit with 75, and one line, where SIGTERM finds it outside the loop, which has its own
    way to end: launchers start it again. `vitzoo --help` and dry runs end as every program does.
    """
    if not arguments or arguments[0] not in TRAINS or "--dry-run" in arguments:
        return
    ours = os.getpid()

    def leave(number: int, frame: FrameType | None) -> None:
        if os.getpid() != ours:  # a process that we forked
            os._exit(128 + number)
        os.write(2, b"vitzoo: SIGTERM: ends at once; nothing was to be saved, and the same command goes on\n")
        os._exit(PREEMPTED)

    signal.signal(signal.SIGTERM, leave)
