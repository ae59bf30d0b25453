"""Where data and caches lie."""

import os
import pathlib
import re
from collections.abc import Mapping

from vitzoo.data.settings import Data
from vitzoo.paths import expanded, home, named_path, readable_path
from vitzoo.staging import temporary_folder
from vitzoo.strict_json import JSON

PATH_KINDS = ("folder", "csv", "text", "jsonl")
"""What `data.name` may be a path of: `folder:PATH`."""
TFDS_VERSION = re.compile(r"[\w/.\-]+:[\d.*]+")
"""A dataset of TFDS with its version, NAME:1.0.0: no part of a user's own."""


def path_of(name: str) -> pathlib.Path | None:
    """The absolute path in a `data.name` of the form KIND:PATH; None for other names."""
    kind, _, path = name.partition(":")
    return named_path("data.name", path).absolute() if kind in PATH_KINDS and path else None


def check_path(name: str) -> None:
    """Checks what lies at the path in a `data.name`, if anything does.

    Raises:
        UserError: a pipe, a socket or a device, whose end may never come, or it may not be read.
    """
    path = path_of(name)
    if path is not None and path.exists():
        readable_path("data.name", path)


def absolute_places(fields: Mapping[str, JSON]) -> dict[str, str]:
    """Those of a data section's fields that say where data lie, `name` and `dir`, with absolute paths: they are kept in
    `config.json`, and mean the same from any folder.
    """
    places = {}
    name, folder = fields.get("name"), fields.get("dir")  # what is no text is refused where the section is built
    if isinstance(name, str) and (path := path_of(name)):
        places["name"] = f"{name.partition(':')[0]}:{path}"
    if isinstance(folder, str) and folder:
        places["dir"] = str(named_path("data.dir", folder).absolute())
    return places


def is_moved(then: JSON, now: JSON) -> bool:
    """Whether two values of `data.name` are a file or folder of one name at two places."""
    if not (isinstance(then, str) and isinstance(now, str)):
        return False
    paths = path_of(then), path_of(now)
    same_kind = then.partition(":")[0] == now.partition(":")[0]
    return same_kind and paths[0] is not None and paths[1] is not None and paths[0].name == paths[1].name


def data_folders(data: Data) -> list[pathlib.Path]:
    """Where prepared data is looked for, in order: `data.dir`, `$TFDS_DATA_DIR`, `~/tensorflow_datasets`; for a user
    without a home folder, `tensorflow_datasets` in the cache.
    """
    last = "~/tensorflow_datasets" if home() else str(cache_folder() / "tensorflow_datasets")
    named = [data.dir, os.environ.get("TFDS_DATA_DIR", ""), last]
    return list(dict.fromkeys(named_path("data.dir", folder) for folder in named if folder))


def cache_folder() -> pathlib.Path:
    """Where indexes of image folders are kept: `$VITZOO_CACHE`, else `vitzoo` in `$XDG_CACHE_HOME` or `~/.cache`; for a
    user without a home folder, a temporary one of this process.
    """
    if own := os.environ.get("VITZOO_CACHE"):
        return named_path("$VITZOO_CACHE", own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return expanded(shared) / "vitzoo"
    user = home()
    return temporary_folder() if user is None else user / ".cache" / "vitzoo"
