"""That no other process of this machine has the same number in a run, nor any program the coordinator's port.

JAX's runtime would end all processes of the run, or end in a segmentation fault: it is looked at before it starts.
"""

import contextlib
import errno
import os
import socket
import sys

from vitzoo.errors import UserError

_held: list[socket.socket] = []  # until the process ends, however it does


def claim(coordinator: str, index: int, listens_at: str = "") -> None:
    """Takes the place of one process of a run.

    Args:
        coordinator: `HOST:PORT`.
        index: of this process; 0 holds the coordinator.
        listens_at: the address at which it does so, `HOST:PORT`, if it is another.

    Raises:
        UserError: the place is taken, or process 0 can't listen there.
    """
    if index == 0:
        _check_port(coordinator, listens_at or coordinator)
    _claim_number(coordinator, index)


def _claim_number(coordinator: str, index: int) -> None:
    if sys.platform != "linux":
        return
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0vitzoo/{coordinator}/{index}"[:100])  # a name of the system, and no file
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            message = f"another process of this machine is that one for {coordinator}; give each a number of its own"
            raise UserError("--process-id", index, message) from None
        return
    _held.append(held)


def _check_port(coordinator: str, listens_at: str) -> None:
    host, _, port = listens_at.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # a name may become known later, and the runtime says what else is wrong
        return
    for family, kind, protocol, _, address in found:
        with contextlib.closing(socket.socket(family, kind, protocol)) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just left is free
            try:
                tried.bind(address)
                return
            except OSError as error:
                why = error
    remedies = {
        errno.EADDRINUSE: "is in use by another program; give all processes another port",
        errno.EADDRNOTAVAIL: "is no address of this machine, on which process 0 is to listen",
        errno.EACCES: "is a port that only an administrator may use; give all processes one from 1024 on",
    }
    message = remedies.get(why.errno or 0, f"can't be listened at: {os.strerror(why.errno or 0)}")
    raise UserError("--coordinator", coordinator, message)
