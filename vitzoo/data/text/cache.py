"""Folders of made things, kept for the next time: whole or not there, however many processes make them."""

import os
import pathlib
import sys
from collections.abc import Callable

from vitzoo.checksums import fits_list, write_list
from vitzoo.errors import RunError
from vitzoo.staging import remove_leftovers, staged, temporary_folder


def kept_folder(folder: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """A folder filled by `make`, from the cache where it is there and undamaged: every file has its checksum.

    Where the cache can't be written, a temporary folder takes its place, and a warning says so.

    Args:
        folder: its place in the cache.
        make: fills a new folder.

    Returns:
        `folder`, or what takes its place.

    Raises:
        RunError: neither can be written.
    """
    if fits_list(folder):
        return folder
    try:
        return _made(folder, make)
    except OSError as error:
        why = error.strerror
    print(f"warning: the cache {folder} can't be written: {why} ($VITZOO_CACHE moves it)", file=sys.stderr, flush=True)
    try:
        return _made(temporary_folder() / folder.name, make)
    except OSError as error:
        message = f"neither the cache {folder} nor a temporary folder can be written: {error.strerror}"
        raise RunError(f"{message} ($VITZOO_CACHE and $TMPDIR move them)") from error


def _made(folder: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """Written under a temporary name beside it, then renamed; what lies there damaged goes."""
    if fits_list(folder):  # of a temporary folder
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder.parent)
    with staged(folder.parent) as place:
        made = place / "folder"
        made.mkdir()
        make(made)
        write_list(made)
        if os.path.lexists(folder) and not fits_list(folder):
            os.rename(folder, place / "file")
        try:
            os.rename(made, folder)
        except OSError:
            if not fits_list(folder):  # else another process was first, with the same content
                raise
    return folder
