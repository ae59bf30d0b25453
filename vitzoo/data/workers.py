"""Processes that read data: started by Grain with `spawn`, from whatever program; none outlives its parent."""

import multiprocessing.spawn
import os
import signal
import threading
import time
from typing import Any

from absl import flags

NAMED = "grain-process-prefetch"
"""How the names of Grain's workers begin."""
MAIN = ("init_main_from_name", "init_main_from_path")
"""What tells a new process to run the parent's script once more."""


def prepare_workers() -> None:
    """Makes this program one that Grain's workers can be started from; a second call does nothing."""
    if not flags.FLAGS.is_parsed():  # Grain reads absl's flags when it starts workers
        flags.FLAGS.mark_as_parsed()
    spawn: Any = multiprocessing.spawn
    if spawn.get_preparation_data.__module__ != __name__:
        spawn.get_preparation_data = _without_script(spawn.get_preparation_data)


def _without_script(get_preparation_data: Any) -> Any:
    """Python runs the parent's script in each new process: one that isn't guarded by its `__name__` would train there
    once more. Workers don't need it, since what Grain sends them holds the script's own functions and classes.
    """

    def prepared(name: str) -> dict[str, Any]:
        data = get_preparation_data(name)
        return {key: value for key, value in data.items() if key not in MAIN or not name.startswith(NAMED)}

    return prepared


def start_worker(parent: int, index: int, count: int) -> None:
    """A worker leaves Ctrl-C and preemption to its parent, and ends when the parent does, however that ended."""
    for sent_to_all in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sent_to_all, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
