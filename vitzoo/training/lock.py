"""Who may use a run folder: one process at a time, and only where a run is or may be."""

import contextlib
import datetime
import errno
import fcntl
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vitzoo.checkpoints import steps
from vitzoo.errors import RunError, UserError
from vitzoo.overwriting import check_spoils_no_run
from vitzoo.parallel import processes
from vitzoo.paths import folder_of_checkpoints
from vitzoo.training.run_folder import CONFIG, RUN_FILES, existing, start_from

LOCK = ".lock"
_LOGS = {".log", ".out", ".err"}  # where a shell or a scheduler may already be writing what this run prints
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}
_held: set[Path] = set()


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Make the folder, and hold it until the block ends or the process dies; of several processes the first holds it.

    The kernel drops the lock of a process that dies, so a killed run never blocks its successor.

    Raises:
        UserError: the folder is in use, can't be written, or holds something that is no run of vitzoo; in every
            process.
    """
    with contextlib.ExitStack() as held:
        holder = processes.first(lambda: held.enter_context(_locked(workdir)))
        if not processes.is_first():
            processes.check_shared(workdir, workdir / LOCK, holder)
        yield


@contextlib.contextmanager
def _locked(workdir: Path) -> Iterator[str]:
    """Hold it for this process; gives what the file says. A process that opens the file and closes it lets go of it."""
    _check(workdir)
    key, file, new = workdir.resolve(), workdir / LOCK, not workdir.exists()
    descriptor = _open(workdir, file)
    try:
        holder = _take(descriptor, workdir, file)
        _held.add(key)
        yield holder
    except OSError as error:
        if not file.exists():
            raise RunError(f"{workdir} was moved or deleted while a run was writing to it") from error
        if error.errno not in _DISK:
            raise
        raise RunError(f"{workdir}: {error.strerror}; what was saved before is intact") from error
    except UserError:
        if key in _held and file.exists() and [path.name for path in workdir.iterdir()] == [LOCK]:  # nothing was begun
            file.unlink()
            if new:
                workdir.rmdir()
        raise
    finally:
        os.close(descriptor)
        _held.discard(key)


def check_usable(workdir: Path) -> None:
    """Raise what `locked` would raise now, and leave no trace."""
    _check(workdir)
    file, parent = workdir / LOCK, existing(workdir)
    try:
        with tempfile.TemporaryFile(dir=parent) as trial:  # has no name, or loses it at once
            trial.write(b" " * 4096)
        if file.exists():
            descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                _try(descriptor, fcntl.LOCK_SH, workdir, file)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise UserError("workdir", str(workdir), f"can't be written: {error.strerror}") from None


def _check(workdir: Path) -> None:
    folder_of_checkpoints("workdir", workdir)
    check_spoils_no_run("workdir", workdir, workdir)
    if workdir.exists() and not workdir.is_dir():
        raise UserError("workdir", str(workdir), "is a file; name a folder")
    if workdir.resolve() in _held:
        raise UserError("workdir", str(workdir), "is in use by this very process")
    lock = workdir / LOCK
    if os.path.lexists(lock) and not stat.S_ISREG(lock.lstat().st_mode):
        raise UserError("workdir", str(workdir), f"its {LOCK} is a link, a pipe, a folder or a device; remove it")
    for file in (workdir / name for name in RUN_FILES):
        if file.exists() and not file.is_file():
            raise UserError("workdir", str(workdir), f"its {file.name} is a folder, a pipe or a device; remove it")
    if not workdir.is_dir() or (workdir / CONFIG).is_file():
        return
    foreign = sorted(p.name for p in workdir.iterdir() if not p.name.startswith(".") and p.suffix not in _LOGS)
    if "checkpoints" in foreign and steps.listed(workdir / "checkpoints"):
        message = f"holds weights and no {CONFIG}, as `convert` writes them; {start_from(workdir)}"
        raise UserError("workdir", str(workdir), message)
    if foreign:
        shown = ", ".join(foreign[:3]) + ("" if len(foreign) <= 3 else f" and {len(foreign) - 3} more")
        raise UserError("workdir", str(workdir), f"holds {shown} and no {CONFIG}, so it is no run; name a new folder")


def _open(workdir: Path, file: Path) -> int:
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError("workdir", str(workdir), f"can't be written: {error.strerror}") from None


def _take(descriptor: int, workdir: Path, file: Path) -> str:
    _try(descriptor, fcntl.LOCK_EX, workdir, file)
    if not file.exists() or os.fstat(descriptor).st_ino != file.stat().st_ino:  # its holder left it just now
        raise UserError("workdir", str(workdir), "was in use a moment ago; try again")
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    holder = f"process {os.getpid()} on {socket.gethostname()} since {now}\n"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, holder.encode(), 0)
    return holder


def _try(descriptor: int, kind: int, workdir: Path, file: Path) -> None:
    try:
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            holder = file.read_text().strip() or "another process"
            raise UserError("workdir", str(workdir), f"is in use by {holder}") from None
        print(f"warning: {workdir} can't be locked ({error.strerror}): start no second run in it", file=sys.stderr)
