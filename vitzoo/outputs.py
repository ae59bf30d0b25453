"""Files that a command writes at its end: refused before any work where they can't be, written whole or not at all."""

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from vitzoo.errors import Failed, Refused


def checked_file(flag: str, path: str | Path, endings: Sequence[str]) -> Path:
    """A file that is to be written.

    Args:
        flag: the setting that names it, for the message.
        path: the file; one that is there is replaced at the end.
        endings: those it may have, `.csv`.

    Raises:
        Refused: its ending names no known form, it is a folder, or its folder is missing or can't be written to.
    """
    file = Path(path).expanduser()
    if file.suffix.lower() not in endings:
        raise Refused(flag, path or "''", f"must end in {' or '.join(endings)}")
    if file.is_dir():
        raise Refused(flag, path, "is a folder; name a file")
    if not file.parent.is_dir():
        raise Refused(flag, path, f"the folder {file.parent} doesn't exist")
    _check_writable(flag, path, file.parent)
    return file


def there(*files: str | Path | None) -> set[str]:
    """Which of the files that are to be written are there already."""
    return {str(file) for file in files if file is not None and Path(file).expanduser().is_file()}


def wrote(file: str | Path, before: Collection[str]) -> str:
    """How a line begins that says what was written: `replaced` where `there` named the file before."""
    return f"{'replaced' if str(file) in before else 'wrote   '} {file}"


def checked_folder(flag: str, path: str | Path) -> Path:
    """A folder that is to be filled, made when the first file comes.

    Raises:
        Refused: it has no name, or it, or what is to hold it, is no folder or can't be written to.
    """
    if not str(path).strip():
        raise Refused(flag, "''", "names no folder")
    folder = Path(path).expanduser()
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise Refused(flag, path, f"{there} is not a folder")
    _check_writable(flag, path, there)
    return folder


def write_whole(path: Path, write: Callable[[Path], Any]) -> bool:
    """Calls `write` with a file beside `path`, then renames it; false where `write` returns False: nothing to write.

    Raises:
        Failed: the file can't be written.
    """
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if write(partial) is False:
            return False
        os.replace(partial, path)
        return True
    except OSError as error:
        raise Failed(f"{path} can't be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _check_writable(flag: str, path: str | Path, folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise Refused(flag, path, f"the folder {folder} can't be written to")
