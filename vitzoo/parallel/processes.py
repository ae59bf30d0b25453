"""Which of a run's processes this is, and how they come to know the same: what process 0 found out, all are told.

Small values travel through the key-value store of JAX's coordinator, not over the devices: a process may wait there for
hours while process 0 prepares data, and none of it needs the same mesh. They travel as JSON: whoever reaches the
coordinator's port can write there, and nothing that is read from it is ever executed.
"""

import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

import jax
import numpy as np
import numpy.typing as npt
from jax.experimental import multihost_utils

from vitzoo.errors import RunError, UserError
from vitzoo.jax_internals import distributed_state
from vitzoo.nn.state import HostParams, Params
from vitzoo.parallel.sharding import Shardings
from vitzoo.strict_json import JSON

T = TypeVar("T", bound=JSON)
_numbers = itertools.count()  # the same in every process, since all of them agree on the same things in the same order
_LONGEST_PAUSE = 0.5  # seconds between two looks


class UserErrorHere(RunError):
    """One process alone can't do what the others can: what it lacks lies on its machine."""

    exit_code = 2


def client() -> Any:
    """The connection to the coordinator; None where a single process runs."""
    return distributed_state().client


def count() -> int:
    """How many processes train together. Starts no backend."""
    return distributed_state().num_processes if client() is not None else 1


def index() -> int:
    """This process's number, from 0. Starts no backend."""
    return distributed_state().process_id if client() is not None else 0


def is_first() -> bool:
    """Whether this is process 0, which prints and writes for all."""
    return index() == 0


def only_first(stream: TextIO) -> TextIO:
    """The stream in process 0; one that leads nowhere in the others."""
    return stream if is_first() else open(os.devnull, "w")


def first(make: Callable[[], T]) -> T:
    """What `make` gives in process 0, in every process: it is called there alone, and the others wait.

    Args:
        make: its value is a plain one, as JSON can hold it.

    Raises:
        UserError, RunError: it did so in process 0.
    """
    if count() == 1:
        return make()
    name = f"vitzoo/agreed/{next(_numbers)}"
    if is_first():
        try:
            value = make()
        except (UserError, RunError) as error:
            _tell(name, None, error)
            raise
        _tell(name, value)
        return value
    return _told(name)


@contextlib.contextmanager
def first_alone() -> Iterator[None]:
    """The block in process 0, then in all others at once: what it makes and keeps on disk is made by one.

    Raises:
        UserError, RunError: the block does so in process 0, which then all do, and the others leave the block out.
        UserErrorHere: it does so in this process only.
    """
    if count() == 1:
        yield
        return
    name = f"vitzoo/agreed/{next(_numbers)}"
    if is_first():
        try:
            yield
        except (UserError, RunError) as error:
            _tell(name, None, error)
            raise
        _tell(name, None)
        return
    _told(name)
    try:
        yield
    except UserError as refusal:
        raise UserErrorHere(str(refusal)) from refusal


def gather(value: T) -> list[T]:
    """Everyone's value, by process, in every process.

    Args:
        value: a plain one, as JSON can hold it.
    """
    if count() == 1:
        return [value]
    name = f"vitzoo/agreed/{next(_numbers)}"
    client().key_value_set_bytes(f"{name}/{index()}", json.dumps(value).encode())
    return [json.loads(wait_for(f"{name}/{one}")) for one in range(count())]


def meet() -> None:
    """Waits until every process is here, for as long as that takes."""
    gather(None)


def agrees_on_preemption() -> bool:
    """Whether JAX's runtime takes SIGTERM in this process and tells the other ones."""
    return count() > 1 and distributed_state().preemption_sync_manager is not None


def is_preempted(call: int) -> bool:
    """Whether all processes are to end now: true in the same call in each, soon after one of them got SIGTERM.

    Args:
        call: counted by the caller, from 1.
    """
    return multihost_utils.reached_preemption_sync_point(call)


def note(name: str) -> None:
    """Leave a mark that `look_up` finds, in any process."""
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # it is there
        client().key_value_set_bytes(name, b"1")


def check_shared(folder: Path, file: Path, text: str) -> None:
    """That this process sees the folder that process 0 made.

    Args:
        folder: of the run.
        file: one in it, which process 0 has written.
        text: what it holds.

    Raises:
        UserErrorHere: this process doesn't see it.
    """
    if not _comes_to_read(file, text):
        raise UserErrorHere(f"workdir = {folder}: must lie on a disk that all processes share; process 0 made it")


def _comes_to_read(file: Path, text: str, seconds: float = 10.0) -> bool:
    """Whether the file holds the text within some seconds: a network's disk may take a while to show it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if file.read_text() == text:
                return True
        time.sleep(0.2)
    return False


def wait_for(name: str) -> bytes:
    """A value of the store, once it is there. Looks again and again, so that other threads can run."""
    pause = 0.01
    while (found := look_up(name)) is None:
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return found


def look_up(name: str) -> bytes | None:
    """A value of the store; None where it isn't there, or the coordinator isn't any more."""
    store = client()
    try:
        return None if store is None else store.key_value_try_get_bytes(name)
    except jax.errors.JaxRuntimeError:
        return None


def _tell(name: str, value: JSON, error: UserError | RunError | None = None) -> None:
    """Gives a value to the others, or how it came to none."""
    client().key_value_set_bytes(name, packed(value, error))


def _told(name: str) -> Any:
    return unpacked(wait_for(name))


def packed(value: JSON, error: UserError | RunError | None = None) -> bytes:
    """A plain value, or the error in its place, for `unpacked`."""
    said: dict[str, Any] = {"value": value}
    if isinstance(error, UserError):
        shown = None if error.value is None else str(error.value)
        said = {"refused": [error.field, shown, error.message]}
    elif error is not None:
        said = {"failed": str(error), "exit_code": error.exit_code}
    return json.dumps(said).encode()


def unpacked(content: bytes) -> Any:
    """The value.

    Raises:
        UserError, RunError: it is an error's.
    """
    said = json.loads(content)
    if "refused" in said:
        raise UserError(*said["refused"])
    if "failed" in said:
        failed = RunError(said["failed"])
        failed.exit_code = said["exit_code"]
        raise failed
    return said["value"]


def place(value: npt.ArrayLike | jax.Array, sharding: jax.sharding.Sharding) -> jax.Array:
    """A host's array on the devices, which may be other processes' too: each process puts its own parts of it.

    Args:
        value: the whole array, the same in every process.
        sharding: where it is to lie.
    """
    if sharding.is_fully_addressable:
        return jax.device_put(value, sharding)
    whole = np.asarray(value)
    return jax.make_array_from_callback(whole.shape, sharding, lambda part: whole[part])


def place_all(tree: HostParams | Params, shardings: Shardings) -> Params:
    """`place` for every leaf."""
    return jax.tree.map(place, tree, shardings)


def flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
