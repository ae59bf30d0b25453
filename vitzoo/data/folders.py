"""Where data and caches lie."""

import os
import pathlib

from vitzoo.data.settings import Data


def data_folders(data: Data) -> list[pathlib.Path]:
    """Where prepared data is looked for, in order: `data.dir`, `$TFDS_DATA_DIR`, `~/tensorflow_datasets`."""
    named = [data.dir, os.environ.get("TFDS_DATA_DIR", ""), "~/tensorflow_datasets"]
    return list(dict.fromkeys(pathlib.Path(folder).expanduser() for folder in named if folder))


def cache_folder() -> pathlib.Path:
    """Where indexes of image folders are kept: `$VITZOO_CACHE`, else `vitzoo` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if own := os.environ.get("VITZOO_CACHE"):
        return pathlib.Path(own).expanduser()
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vitzoo"
