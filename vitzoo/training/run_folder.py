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

from vitzoo.config.comparison import Differences, compare
from vitzoo.errors import Failed, Refused

CONFIG = "config.json"
PROVENANCE = "provenance.json"
LOCK = ".lock"
_LOGS = {".log", ".out", ".err"}  # where a shell or a scheduler may already be writing what this run prints
_PACKAGES = ("vitzoo", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "tensorflow-datasets", "numpy")
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}
_held: set[Path] = set()


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Make the folder, and hold it for this process until the block ends or the process dies.

    The kernel drops the lock of a process that dies, so a killed run never blocks its successor.

    Raises:
        Refused: the folder is in use, can't be written, or holds something that is no run of vitzoo.
    """
    _check(workdir)
    key, file, new = workdir.resolve(), workdir / LOCK, not workdir.exists()
    if key in _held:
        raise Refused("workdir", str(workdir), "is in use by this very process")
    descriptor = _open_lock(workdir, file)
    try:
        _take(descriptor, workdir, file)
        _held.add(key)
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise Failed(f"{workdir}: {error.strerror}; what was saved before is intact") from error
    except Refused:
        if key in _held and [path.name for path in workdir.iterdir()] == [LOCK]:  # nothing was begun
            file.unlink()
            if new:
                workdir.rmdir()
        raise
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
    if not file.exists() or os.fstat(descriptor).st_ino != file.stat().st_ino:  # its holder left it just now
        raise Refused("workdir", str(workdir), "was in use a moment ago; try again")
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {now}\n".encode(), 0)


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file so that a reader finds the old content or the new, never half of it."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(partial, file)


def check_config(workdir: Path, values: dict[str, Any]) -> Differences:
    """Compare the config asked for with the one the run was started with; empty for a new run.

    Returns:
        The execution settings that differ, by name: (then, now).

    Raises:
        Refused: a setting of the training's meaning differs, or `config.json` can't be read.
    """
    before = read_config(workdir)
    if before is None:
        return {}
    meaning, execution = compare(before, values)
    if meaning:
        field, (then, now) = next(iter(meaning.items()))
        more = f" (and {', '.join(list(meaning)[1:4])})" if len(meaning) > 1 else ""
        raise Refused(field, now, f"this run was started with {then}{more}; start a new workdir for another training")
    return execution


def begin(workdir: Path, values: dict[str, Any], step: int, differences: Differences, device: str) -> None:
    """Write `config.json` and `provenance.json`; a config with other execution settings keeps the one before."""
    if differences:
        write_json(workdir / f"config.before-{step}.json", read_config(workdir))
    write_json(workdir / CONFIG, values)
    _record_provenance(workdir, step, device)


def read_config(workdir: Path) -> dict | None:
    """The values that the run was started with; None for a new run."""
    file = workdir / CONFIG
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise Refused("workdir", str(file), f"can't be read ({error})") from None


def _record_provenance(workdir: Path, step: int, device: str) -> None:
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
