"""Folders of made things, kept for the next time: whole or not there, however many processes make them."""

import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable

from vitzoo.errors import Failed


def kept_folder(folder: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """`folder`, filled by `make` unless it is there: written under a temporary name beside it, then renamed.

    Raises:
        Failed: the cache can't be written.
    """
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise Failed(
            f"the cache {folder.parent} can't be written: {error.strerror} ($VITZOO_CACHE moves it)"
        ) from error
    try:
        make(made)
        os.rename(made, folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was first, with the same content
            raise Failed(f"the cache {folder} can't be written: {error.strerror} ($VITZOO_CACHE moves it)") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder
