"""Files and folders that a command writes: refused before any work where they can't be, written whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from vitzoo.errors import RunError, UserError
from vitzoo.overwriting import Reads, check_replaces_nothing, check_stays_outside
from vitzoo.paths import expanded, folder_of_checkpoints, folder_to_fill, named_path
from vitzoo.staging import check_unmoved, claimed, is_claimed, is_held, is_staged, remove_leftovers, staged


def checked_file(flag: str, path: str | Path, endings: Sequence[str], reads: Reads | None = None) -> Path:
    """A file that is to be written.

    Args:
        flag: the setting that names it, for the message.
        path: the file; one that is there is replaced at the end.
        endings: those it may have, `.csv`.
        reads: what the command reads.

    Raises:
        UserError: its ending names no known form, it is a folder or a device, its folder is missing or can't be written
            to, or it would take the place of what is read or of what belongs to a run or a checkpoint.
    """
    file = named_path(flag, path)
    if os.fspath(path).endswith((os.sep, f"{os.sep}.")):  # which pathlib leaves out
        raise UserError(flag, path, "names a folder; name a file")
    if file.suffix.lower() not in endings:
        raise UserError(flag, path, f"must end in {' or '.join(endings)}")
    if file.is_dir():
        raise UserError(flag, path, "is a folder; name a file")
    if file.exists() and not file.is_file():
        raise UserError(flag, path, "is there and no ordinary file; name another")
    if not file.parent.is_dir():
        raise UserError(flag, path, f"the folder {file.parent} doesn't exist")
    check_replaces_nothing(flag, path, file, reads or Reads())
    target = Path(os.path.realpath(file))
    _check_writable(flag, path, target.parent)
    remove_leftovers(target.parent)
    return file


def there(*files: str | Path | None) -> set[str]:
    """Which of the files that are to be written are there already."""
    return {str(file) for file in files if file is not None and _is_file(file)}


def wrote(file: str | Path, before: Collection[str]) -> str:
    """How a line begins that says what was written: `replaced` where `there` named the file before."""
    return f"{'replaced' if str(file) in before else 'wrote   '} {file}"


def checked_folder(flag: str, path: str | Path, reads: Reads | None = None) -> Path:
    """A folder that is to be filled, made when the first file comes.

    Args:
        flag, path, reads: as for `checked_file`.

    Raises:
        UserError: as `folder_to_fill`; it, or what is to hold it, is no folder or can't be written to; or it lies in a
            checkpoint, or in a folder whose images are read.
    """
    folder = folder_to_fill(flag, path)
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise UserError(flag, path, f"{there} is not a folder")
    check_stays_outside(flag, path, folder, reads or Reads())
    _check_writable(flag, path, there)
    remove_leftovers(Path(os.path.realpath(there)))
    return folder


def checked_new_folder(flag: str, path: str | Path, checkpoint: bool = False, reads: Reads | None = None) -> Path:
    """A folder that isn't there yet, or is empty.

    Args:
        flag, path, reads: as for `checked_folder`.
        checkpoint: a checkpoint is to be written there.

    Raises:
        UserError: as `checked_folder` and `folder_of_checkpoints`, or it holds something.
    """
    folder = checked_folder(flag, path, reads)
    if checkpoint:
        check_takes_checkpoints(flag, folder)
    target = Path(os.path.realpath(folder))
    if is_claimed(target.parent, target):
        raise _being_filled(flag, path)
    _check_empty(flag, path, folder)
    return folder


def _check_empty(flag: str, path: str | Path, folder: Path, own: Path | None = None) -> None:
    """Refuses a folder that holds anything but `own`."""
    content = [one for one in folder.iterdir() if one != own] if folder.exists() else []
    if any(is_staged(one) and is_held(one) for one in content):
        raise _being_filled(flag, path)
    if content:
        raise UserError(flag, str(path), "is there already and not empty; give another folder")


def _being_filled(flag: str, path: str | Path) -> UserError:
    return UserError(flag, str(path), "is being filled by another command; wait for it, or give another folder")


@contextlib.contextmanager
def only_writer(flag: str, path: str | Path | None) -> Iterator[None]:
    """Within the block no other command that asks so writes into a folder, whose files may replace earlier ones.

    Args:
        flag, path: as `checked_folder` was given them; no path is no folder.

    Raises:
        UserError: another command does.
    """
    with contextlib.ExitStack() as held:
        if path is not None:
            target = Path(os.path.realpath(expanded(path)))
            there = [parent for parent in target.parents if parent.exists()]
            claim: Path | None = target
            with contextlib.suppress(OSError):  # of a mount what lies above may not be ours to write in
                # the first may have made folders above it since it was claimed
                is_taken = any(is_claimed(parent, target) for parent in there[1:])
                claim = None if is_taken else held.enter_context(claimed(there[0], target))
            if claim is None:
                raise _being_filled(flag, path)
        yield


def check_takes_checkpoints(flag: str, folder: Path) -> None:
    """Refuses what `folder_of_checkpoints` does, also of what a link leads to, where `whole_folder` writes."""
    for one in (folder, os.path.realpath(folder)):
        folder_of_checkpoints(flag, one)


def write_whole(path: Path, write: Callable[[Path], int | None]) -> bool:
    """Calls `write` with a file beside `path`, then renames it; false where `write` returns False: nothing to write.

    Raises:
        RunError: the file can't be written.
    """
    with _told(path):
        target = Path(os.path.realpath(path))  # of a link, what it leads to is replaced
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged(target.parent) as place:
            partial = place / f"file{path.suffix}"
            if write(partial) is False:
                return False
            check_unmoved(place)
            os.replace(partial, target)
    return True


def give_usual_mode(file: Path) -> None:
    """Lets those read and write a file who may any new one: some libraries make theirs their owner's alone."""
    new = file.with_name(f"{file.name}.new")
    new.touch()
    file.chmod(new.stat().st_mode & 0o777)
    new.unlink()


@contextlib.contextmanager
def whole_folder(path: Path, flag: str = "--output") -> Iterator[Path]:
    """A folder to be filled in place of `path`, which is new or empty; it takes that place where the block ends well,
    and is gone otherwise.

    Args:
        path: as `checked_new_folder` gave it.
        flag: the setting that names it, for the message.

    Raises:
        UserError: another command fills it, or has filled it since it was checked.
        RunError: it can't be written.
    """
    target = Path(os.path.realpath(path))
    new = [one for one in target.parents if not one.exists()]
    # a folder that is there may be a mount, whose place can't be taken: it is filled from within
    place = target if target.exists() else target.parent
    with _told(path), contextlib.ExitStack() as undo:
        undo.callback(_remove_empty, new)
        place.mkdir(parents=True, exist_ok=True)
        held = undo.enter_context(claimed(place, target))
        if held is None:
            raise _being_filled(flag, path)
        _check_empty(flag, path, target, held)
        folder = held / "folder"
        folder.mkdir()
        try:
            yield folder
        except RunError as error:  # names the folder that is gone
            raise RunError(str(error).replace(str(folder), str(path))) from error
        check_unmoved(held)
        if place != target:
            os.rename(folder, target)
            return
        for one in list(folder.iterdir()):
            os.rename(one, target / one.name)


def _is_file(file: str | Path) -> bool:
    try:
        return expanded(file).is_file()
    except (OSError, ValueError, RuntimeError):  # refused by `checked_file`
        return False


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What goes wrong in writing, in one line."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} can't be written: {error.strerror or error}") from error
    except UnicodeError as error:
        raise RunError(f"{path} can't be written: a text in it is no valid Unicode ({error})") from error


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _check_writable(flag: str, path: str | Path, folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):  # has no name, or loses it at once
            return
    except OSError as error:
        raise UserError(flag, path, f"the folder {folder} can't be written to: {error.strerror}") from None
