"""Sees that no process waits for one that is gone: a lost or failed process ends all the others, with one line.

A collective operation waits for ever, or fails with a message of sockets, when another process has died. So a thread in
each process asks JAX's coordinator once a second who is alive; the runtime's own heartbeat decides that, and not a
thread of Python's, which a busy interpreter may hold up. A process that ends leaves a note of how.
"""

import contextlib
import dataclasses
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Collection

import jax

from vitzoo.errors import RunError
from vitzoo.parallel import processes

HEARTBEAT = 10  # seconds of silence after which the runtime calls a process dead
_PAUSE = 1.0  # seconds between two looks
_GRACE = 2.0  # seconds that the main thread is given to end by itself
_PATIENCE = HEARTBEAT + 4.0  # seconds to wait for the reason of a failed operation
# seconds that process 0, who holds the coordinator, waits for the others to leave before it
_FAREWELL = 30.0
_FAREWELL_AFTER_LOSS = 8.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Why all processes have to end.

    Attributes:
        message: the line to print.
        exit_code: of every process.
        lost: the processes that are gone; none: one failed or was refused, and said so.
    """

    message: str
    exit_code: int
    lost: frozenset[int] = frozenset()


class Watch:
    """Watches the other processes from `start` until `leave`."""

    def __init__(self) -> None:
        self.is_first = processes.is_first()
        self.verdict: Verdict | None = None
        self._known = threading.Event()
        self._closed = threading.Event()
        self._hosts: dict[int, str] = {}
        self._thread = threading.Thread(target=self._watch, name="vitzoo-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch; every process must have been joined."""
        own = f"{socket.gethostname()}, pid {os.getpid()}"
        self._hosts = dict(enumerate(processes.gather(own)))
        self._thread.start()

    def reason(self) -> Verdict | None:
        """Why an operation of all processes may have failed, waited for as long as a lost one takes to be noticed."""
        self._known.wait(_PATIENCE)
        return self.verdict

    def tell(self, message: str, exit_code: int) -> Verdict:
        """Tell the others that this process can't go on; gives back what all end with, which another may have said."""
        own = {"process": processes.index(), "message": message, "exit_code": exit_code}
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # another was first
            processes.client().key_value_set_bytes("vitzoo/failed", json.dumps(own).encode())
        return self._told() or Verdict(message, exit_code)

    def prints(self, verdict: Verdict) -> bool:
        """Whether this process is to print it: each says who is gone; of a failure process 0 tells."""
        return self.is_first or bool(verdict.lost)

    def leave(self) -> None:
        """Stop watching and leave the others; process 0 goes last, since the runtime ends whoever loses it."""
        self._closed.set()
        self._thread.join(_GRACE)  # process 0 takes one that asks who is alive for one that stays
        self._say_ended()
        if self.is_first:
            self._wait_for_others()
        jax.distributed.shutdown()

    def _watch(self) -> None:
        while (verdict := self._look()) is None:
            if self._closed.wait(_PAUSE):
                return
        self.verdict = verdict
        self._known.set()
        if not self._closed.wait(_GRACE):
            self._end(verdict)

    def _look(self) -> Verdict | None:
        alive = self._alive()
        if told := self._told():
            return told
        gone = [one for one in range(processes.count()) if one not in alive and not self._has_ended(one)]
        return self._lost(gone) if gone else None

    def _alive(self) -> Collection[int]:
        """The living processes, once each of them has asked."""
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            return processes.client().get_live_nodes(list(range(processes.count())))
        return range(processes.count())  # the coordinator is gone, and the runtime ends this process

    def _lost(self, gone: list[int]) -> Verdict:
        listed = ", ".join(f"{one} ({self._hosts[one]})" for one in gone)
        which = f"process {listed} of {processes.count()} is" if len(gone) == 1 else f"processes {listed} are"
        return Verdict(
            f"{which} gone; start all again to go on from the last checkpoint", RunError.exit_code, frozenset(gone)
        )

    def _told(self) -> Verdict | None:
        found = processes.look_up("vitzoo/failed")
        if found is None:
            return None
        said = json.loads(found)
        which = "" if said["process"] == 0 else f"process {said['process']} ({self._hosts[said['process']]}): "
        return Verdict(which + said["message"], said["exit_code"])

    def _has_ended(self, one: int) -> bool:
        return processes.look_up(f"vitzoo/ended/{one}") is not None

    def _say_ended(self) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # said before, or the coordinator is gone
            processes.client().key_value_set_bytes(f"vitzoo/ended/{processes.index()}", b"1")

    def _wait_for_others(self) -> None:
        lost = self.verdict.lost if self.verdict else frozenset()
        end = time.monotonic() + (_FAREWELL_AFTER_LOSS if lost else _FAREWELL)
        waiting = set(range(1, processes.count())) - lost
        while waiting and time.monotonic() < end:
            waiting = {one for one in waiting if not self._has_ended(one)}
            time.sleep(0.05)
        # those that ended have yet to leave the coordinator, without which the runtime would abort them: the call
        # returns when no one is left to join in it
        ask = threading.Thread(target=self._alive, daemon=True)
        ask.start()
        ask.join(max(end - time.monotonic(), 1.0))
        time.sleep(0.2)

    def _end(self, verdict: Verdict) -> None:
        """End this process from here: its main thread waits for one that won't come."""
        if self.prints(verdict):
            print(f"vitzoo: {verdict.message}", file=sys.stderr, flush=True)
        self._say_ended()
        if self.is_first:
            self._wait_for_others()
        os._exit(verdict.exit_code)
