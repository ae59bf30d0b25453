"""`folder:PATH`: images in one sub-folder for each class."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence

from vitzoo.data import left_out
from vitzoo.data.image_files import IMAGE_ENDINGS
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table
from vitzoo.data.sources.files import LabelledFile, standard_split, table_of_files
from vitzoo.errors import Refused

IGNORED = {"__MACOSX", "Thumbs.db", "desktop.ini"}
NAMED = 3  # ignored files that a note lists
LAYOUT = "one sub-folder for each class (PATH/cat/1.jpg, PATH/dog/2.jpg), which may lie in train, val and test folders"


def open_folder(data: Data, path: str) -> Table:
    """The images under a folder, every one decoded once.

    The first level names the classes, or else the parts train, val(idation) and test, each with class folders. Within a
    class, files lie at any depth; links are followed; names that begin with a dot are ignored, and so are, though
    counted, files without an image's ending. Files are taken in the order of their relative paths.

    Raises:
        Refused: no such folder, no class folders, a class folder without an image or unreadable files (under
            `bad_files=stop`), or a class in another part that train lacks.
    """
    if not path:
        raise Refused("data.name", data.name, "names no folder; write folder:PATH")
    root = pathlib.Path(path).expanduser().absolute()
    if not root.is_dir():
        raise Refused("data.name", data.name, f"{root} is not a folder")
    parts = _part_folders(root) or {"": root}
    found = Found()
    for split, folder in parts.items():
        _look_through(folder, split, root, data, found)
    if found.empty and data.bad_files == "stop":
        listed = ", ".join(f"{folder}{f' (only {only})' if only else ''}" for folder, only in found.empty.items())
        message = f"class folders without an image: {listed}; remove them, or set data.bad_files=skip"
        raise Refused("data.name", data.name, message)
    if not found.images:
        raise Refused("data.name", data.name, f"no images found; put them in {LAYOUT}")
    for empty in found.empty:
        left_out.name(f"{empty} (no image in it)")
    table = table_of_files(sorted(found.images, key=lambda file: file.name), data, multi_label=False)
    return dataclasses.replace(table, notes=(*table.notes, *_ignored(found.others)))


@dataclasses.dataclass
class Found:
    """What lies in class folders: images, other files by their relative names, and class folders without an image, each
    with what is in it.
    """

    images: list[LabelledFile] = dataclasses.field(default_factory=list)
    others: list[str] = dataclasses.field(default_factory=list)
    empty: dict[str, str] = dataclasses.field(default_factory=dict)


def _ignored(others: Sequence[str]) -> list[str]:
    """A note of the files that are no images, by their endings."""
    if not others:
        return []
    some = "1 file that is no image" if len(others) == 1 else f"{len(others):,} files that are no images"
    return [f"ignored {some}: {_listed(others)}"]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


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


def is_image(path: pathlib.Path) -> bool:
    """Whether a file's ending is that of an image."""
    return path.suffix.lower() in IMAGE_ENDINGS


def _look_through(folder: pathlib.Path, split: str, root: pathlib.Path, data: Data, found: Found) -> None:
    """Adds what the class folders in `folder` hold."""
    stray = sorted(entry.name for entry in folder.iterdir() if is_image(entry) and entry.is_file())
    stray = [name for name in stray if _is_visible(name)]
    if stray:
        raise Refused("data.name", data.name, f"{folder / stray[0]} is in no class folder; images belong in {LAYOUT}")
    for class_folder in _visible_folders(folder):
        paths = list(_files_below(class_folder))
        images = [path for path in paths if is_image(path)]
        others = [path.relative_to(root).as_posix() for path in paths if not is_image(path)]
        if not images:
            found.empty[str(class_folder)] = _listed(others)
        found.others += others
        found.images += [
            LabelledFile(str(path), path.relative_to(root).as_posix(), split, (class_folder.name,)) for path in images
        ]


def _files_below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """All visible files at any depth. A link back to a folder that is being walked is not entered again."""
    walked: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        walked.add(os.path.realpath(parent))
        folders[:] = sorted(
            name for name in folders if _is_visible(name) and os.path.realpath(os.path.join(parent, name)) not in walked
        )
        yield from (pathlib.Path(parent, name) for name in sorted(names) if _is_visible(name))
