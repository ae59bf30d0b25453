"""Folders for what is only half written: locked while their process lives, and removed by the next command if it died.

The kernel drops the lock of a process that is killed, on whatever host it ran, so that no leftover is taken for one in
use, and nothing in use for a leftover.
"""

import atexit
import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from vitzoo.errors import RunError

PREFIX = ".vitzoo-"
"""How the names of such folders begin."""
_LOCK = "lock"
_NAME = re.compile(re.escape(PREFIX) + "(prepare-)?[a-z0-9_]{8}")
_CONTENT = re.compile(rf"{_LOCK}|folder|file([.]\w+)?")
_IN_USE = (errno.EACCES, errno.EAGAIN)
_TRIES, _PAUSE = 5, 0.05  # seconds: a leftover is being removed for a moment only
_locks: dict[Path, int] = {}


@contextlib.contextmanager
def staged(place: Path) -> Iterator[Path]:
    """A new folder in `place`, which is gone when the block ends.

    Raises:
        OSError: it can't be made.
    """
    with _kept(*_made(place)) as folder:
        yield folder


@contextlib.contextmanager
def claimed(place: Path, target: Path) -> Iterator[Path | None]:
    """As `staged`, for what is to become `target`: at most one at a time has it, of all processes and threads.

    Yields:
        The folder; None where another has it.

    Raises:
        OSError: it can't be made.
    """
    folder = place / _name_for(target)
    descriptor = _taken(folder)
    if descriptor is None:
        yield None
        return
    with _kept(folder, descriptor):
        yield folder


@contextlib.contextmanager
def _kept(folder: Path, descriptor: int) -> Iterator[Path]:
    """The folder, which is gone when the block ends, and then its lock."""
    _locks[folder] = descriptor
    try:
        yield folder
    finally:
        del _locks[folder]
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def is_claimed(place: Path, target: Path) -> bool:
    """Whether a living process fills what is to become `target`."""
    return is_held(place / _name_for(target))


@functools.cache
def temporary_folder() -> Path:
    """A folder for what has no better place, which goes with this process.

    Raises:
        RunError: there is none that can be written.
    """
    try:
        folder = tempfile.mkdtemp(prefix="vitzoo-")
    except OSError as error:
        raise RunError(f"no temporary folder can be written ({error.strerror}); $TMPDIR names another") from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def check_unmoved(folder: Path) -> None:
    """Whether a folder of `staged` is still the one that was made: libraries make folders that they miss.

    Raises:
        FileNotFoundError: it was moved or deleted by someone else.
    """
    if not _is_same(_locks[folder], folder):
        raise FileNotFoundError(errno.ENOENT, "the folder was moved or deleted meanwhile")


def remove_leftovers(place: Path) -> None:
    """Removes what killed processes left in a folder, and says so; what is in use stays."""
    for folder in _staged_in(place):
        if is_held(folder):
            continue
        _remove_locked(folder)
        if not folder.exists():
            print(f"removed  {folder}, left by a command that was killed", file=sys.stderr, flush=True)


def is_held(folder: Path) -> bool:
    """Whether a living process holds it; also where its file system knows no locks."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def is_staged(folder: Path) -> bool:
    """Whether it is a folder that `staged` made: by its name, and by holding nothing else."""
    if not _NAME.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
        return False
    try:
        return folder.name.startswith(f"{PREFIX}prepare-") or all(map(_CONTENT.fullmatch, os.listdir(folder)))
    except OSError:
        return False


def _staged_in(place: Path) -> list[Path]:
    try:
        return [path for path in place.iterdir() if path.name.startswith(PREFIX) and is_staged(path)]
    except OSError:
        return []


def _name_for(target: Path) -> str:
    """The name of the folder in which `target` is made."""
    return PREFIX + hashlib.sha256(os.fsencode(target)).hexdigest()[:8]


def _taken(folder: Path) -> int | None:
    """The lock of a folder of this name, which is made and empty then; None where another holds it."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        with contextlib.suppress(FileNotFoundError):  # another has removed it, for a leftover or since it is done
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _locked(descriptor) and _is_same(descriptor, folder):
                for left in [one for one in folder.iterdir() if one.name != _LOCK]:
                    shutil.rmtree(left, ignore_errors=True)
                return descriptor
            os.close(descriptor)
        time.sleep(_PAUSE)
    return None


def _remove_locked(folder: Path) -> None:
    """Removes a leftover, its lock held, so that nobody takes it meanwhile."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _locked(descriptor) and _is_same(descriptor, folder):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def _made(place: Path) -> tuple[Path, int]:
    """A new folder, and its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        with contextlib.suppress(FileNotFoundError):  # else taken for a leftover before it was locked
            try:
                descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            if _locked(descriptor) and _is_same(descriptor, folder):
                return folder, descriptor
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Takes the lock; false where another process has it, true too where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _IN_USE
    return True


def _is_same(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder / _LOCK))
    except OSError:
        return False
