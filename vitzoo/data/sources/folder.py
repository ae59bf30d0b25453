"""`folder:PATH`: images in one sub-folder for each class."""

import os
import pathlib
from collections.abc import Iterator

from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table
from vitzoo.data.sources.files import LabelledFile, standard_split, table_of_files
from vitzoo.errors import Refused

IGNORED = {"__MACOSX", "Thumbs.db", "desktop.ini"}
IMAGE_ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
LAYOUT = "one sub-folder for each class (PATH/cat/1.jpg, PATH/dog/2.jpg), which may lie in train, val and test folders"


def open_folder(data: Data, path: str) -> Table:
    """The images under a folder, every one decoded once.

    The first level names the classes, or else the parts train, val(idation) and test, each with class folders. Within a
    class, files lie at any depth; links are followed; names that begin with a dot are ignored. Files are taken in the
    order of their relative paths.

    Raises:
        Refused: no such folder, no class folders, an empty class folder or unreadable files (under `bad_files=stop`),
            or a class in another part that train lacks.
    """
    if not path:
        raise Refused("data.name", data.name, "names no folder; write folder:PATH")
    root = pathlib.Path(path).expanduser().absolute()
    if not root.is_dir():
        raise Refused("data.name", data.name, f"{root} is not a folder")
    parts = _part_folders(root) or {"": root}
    files = [file for split, folder in parts.items() for file in _labelled(folder, split, root, data)]
    if not files:
        raise Refused("data.name", data.name, f"no images found; put them in {LAYOUT}")
    return table_of_files(sorted(files, key=lambda file: file.name), data, multi_label=False)


def _part_folders(root: pathlib.Path) -> dict[str, pathlib.Path]:
    """The folders train, validation, test, where all first-level folders are such and hold class folders."""
    folders = _visible_folders(root)
    names = [standard_split(folder.name) for folder in folders]
    parts = {name: folder for name, folder in zip(names, folders, strict=True) if name and _visible_folders(folder)}
    return parts if len(parts) == len(folders) else {}


def _visible_folders(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and _is_visible(entry.name))


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name not in IGNORED


def _labelled(folder: pathlib.Path, split: str, root: pathlib.Path, data: Data) -> Iterator[LabelledFile]:
    stray = sorted(
        entry.name for entry in folder.iterdir() if entry.suffix.lower() in IMAGE_ENDINGS and entry.is_file()
    )
    stray = [name for name in stray if _is_visible(name)]
    if stray:
        raise Refused("data.name", data.name, f"{folder / stray[0]} is in no class folder; images belong in {LAYOUT}")
    empty = []
    for class_folder in _visible_folders(folder):
        paths = list(_files_below(class_folder))
        if not paths:
            empty.append(str(class_folder))
        for path in paths:
            yield LabelledFile(str(path), path.relative_to(root).as_posix(), split, (class_folder.name,))
    if empty and data.bad_files == "stop":
        raise Refused(
            "data.name", data.name, f"empty class folders: {', '.join(empty)}; remove them, or set data.bad_files=skip"
        )


def _files_below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """All visible files at any depth. A link back to a folder that is being walked is not entered again."""
    walked: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        walked.add(os.path.realpath(parent))
        folders[:] = sorted(
            name for name in folders if _is_visible(name) and os.path.realpath(os.path.join(parent, name)) not in walked
        )
        yield from (pathlib.Path(parent, name) for name in sorted(names) if _is_visible(name))
