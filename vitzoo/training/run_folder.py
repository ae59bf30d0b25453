"""The folder of one run (`--workdir`): who may use it, what it was configured with, where it came from."""

import contextlib
import datetime
import errno
import fcntl
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitzoo.errors import Refused

CONFIG = "config.json"
PROVENANCE = "provenance.json"
LOCK = ".lock"
_LOGS = {".log", ".out", ".err"}  # where a shell or a scheduler may already be writing what this run prints
_PACKAGES = ("vitzoo", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "tensorflow-datasets", "numpy")
_held: set[Path] = set()


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Make the folder, and hold it for this process until the block ends or the process dies.

    The kernel drops the lock of a process that dies, so a killed run never blocks its successor.

    Raises:
        Refused: the folder is in use, can't be written, or holds something that is no run of vitzoo.
    """
    _check(workdir)
    key, file = workdir.resolve(), workdir / LOCK
    if key in _held:
        raise Refused("workdir", str(workdir), "is in use by this very process")
    descriptor = _open_lock(workdir, file)
    try:
        _take(descriptor, workdir, file)
        _held.add(key)
        yield
    finally:
        os.close(descriptor)
        _held.discard(key)


def _check(workdir: Path) -> None:
    if workdir.exists() and not workdir.is_dir():
        raise Refused("workdir", str(workdir), "is a file; name a folder")
    if not workdir.is_dir() or (workdir / CONFIG).is_file():
        return
    foreign = sorted(p.name for p in workdir.iterdir() if not p.name.startswith(".") and p.suffix not in _LOGS)
    if foreign:
        shown = ", ".join(foreign[:3]) + ("" if len(foreign) <= 3 else f" and {len(foreign) - 3} more")
        raise Refused("workdir", str(workdir), f"holds {shown} and no {CONFIG}, so it is no run; name a new folder")


def _open_lock(workdir: Path, file: Path) -> int:
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Refused("workdir", str(workdir), f"can't be written: {error.strerror}") from None


def _take(descriptor: int, workdir: Path, file: Path) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            holder = file.read_text().strip() or "another process"
            raise Refused("workdir", str(workdir), f"is in use by {holder}") from None
        print(f"warning: {workdir} can't be locked ({error.strerror}): start no second run in it", file=sys.stderr)
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {now}\n".encode(), 0)


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file so that a reader finds the old content or the new, never half of it."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(partial, file)


def read_config(workdir: Path) -> dict | None:
    """The configuration that the run was started with; None for a new run.

    Raises:
        Refused: the file is damaged.
    """
    file = workdir / CONFIG
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise Refused("workdir", str(file), f"can't be read ({error})") from None


def keep_config(workdir: Path, step: int) -> None:
    """Keep the present `config.json` as `config.before-STEP.json`, before it is rewritten for a resumed run."""
    write_json(workdir / f"config.before-{step}.json", json.loads((workdir / CONFIG).read_text()))


def record_provenance(workdir: Path, step: int, device: str) -> None:
    """Write where the run comes from; a resumed run adds to `resumed` what differs by then.

    Args:
        workdir: the run's folder.
        step: the step this process starts from.
        device: platform and device count.
    """
    file = workdir / PROVENANCE
    now = {
        "started": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "step": step,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": device,
        "versions": {name: _version(name) for name in _PACKAGES},
        "git": _git_state(),
    }
    try:
        first = json.loads(file.read_text())
        first["resumed"].append(now)
    except (OSError, ValueError, KeyError):
        first = {**now, "resumed": []}
    write_json(file, first)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_state() -> dict | None:
    """Commit of the folder that vitzoo runs from, and whether files differ from it; None outside a repository."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None
