"""`folder:PATH`: images in one sub-folder for each class."""

import dataclasses
import pathlib
from collections.abc import Sequence

from vitzoo.data import left_out
from vitzoo.data.file_tree import broken_links, files_below, is_broken, is_visible, sub_folders
from vitzoo.data.image_files import is_image
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table
from vitzoo.data.sources.image_table import ImageFile, table_of_files
from vitzoo.data.sources.labels import class_names
from vitzoo.data.splits import split_below, standard_split
from vitzoo.errors import UserError
from vitzoo.paths import expanded

NAMED = 3  # ignored files that a note lists
LAYOUT = "one sub-folder for each class (PATH/cat/1.jpg, PATH/dog/2.jpg), which may lie in train, val and test folders"


def open_folder(data: Data, path: str) -> Table:
    """The images under a folder, every one decoded once.

    The first level names the classes, or else the splits: a folder with a split's name (train, val, validation, dev,
    test ...) that holds class folders is one, and then what else stands there is left out and named. Within a class,
    files lie at any depth; links are followed, though none to a folder above it or to one that is read already; names
    that begin with a dot are ignored, and so are, though counted, files without an image's ending. A link that leads
    nowhere is a file that can't be read. Files are taken in
    the order of their relative paths.

    Raises:
        UserError: no such folder, no class folders, a class folder without an image or unreadable files (under
            `bad_files=stop`), two folders for one split, a folder with a split's name within a class, a class whose
            name isn't UTF-8, or one in another split that train lacks.
    """
    if not path:
        raise UserError("data.name", data.name, "names no folder; write folder:PATH")
    root = expanded(path).absolute()
    if not root.is_dir():
        raise UserError("data.name", data.name, f"{root} is not a folder")
    try:
        found = _look_through(root, data)
    except OSError as error:
        raise UserError("data.name", data.name, f"{error.filename} can't be read: {error.strerror}") from None
    _refuse_below(found.images, root, data)
    if found.empty and data.bad_files == "stop":
        listed = ", ".join(f"{folder}{f' (only {only})' if only else ''}" for folder, only in found.empty.items())
        message = f"class folders without an image: {listed}; remove them, or set data.bad_files=skip"
        raise UserError("data.name", data.name, message)
    if not found.images:
        raise UserError("data.name", data.name, f"no images found; put them in {LAYOUT}")
    for empty in found.empty:
        left_out.name(f"{empty} (no image in it)")
    table = table_of_files(sorted(found.images, key=lambda file: file.name), data, multi_label=False)
    return dataclasses.replace(table, notes=(*table.notes, *found.notes, *_ignored(found.others)))


@dataclasses.dataclass
class Found:
    """What lies in class folders: images, other files by their relative names, and class folders without an image, each
    with what is in it; and notes of what was left out.
    """

    images: list[ImageFile] = dataclasses.field(default_factory=list)
    others: list[str] = dataclasses.field(default_factory=list)
    empty: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


def _look_through(root: pathlib.Path, data: Data) -> Found:
    found, links = Found(), list[str]()
    folders = _class_folders(root, data, found.notes, links)
    for parent in dict.fromkeys([root, *(folder.parent for _, folder in folders)]):
        found.images += [  # in place of a class: it is named as what can't be read
            ImageFile(str(path), path.relative_to(root).as_posix(), "", (path.name,)) for path in broken_links(parent)
        ]
    for (split, folder), paths in zip(folders, files_below([f for _, f in folders], root, links), strict=True):
        if paths is None:  # a link to another of them
            continue
        class_names(data.name, [folder.name])
        images = [path for path in paths if is_image(path) or is_broken(path)]
        others = sorted(path.relative_to(root).as_posix() for path in set(paths) - set(images))
        if not images:
            found.empty[str(folder)] = _listed(others)
        found.others += others
        found.images += [
            ImageFile(str(path), path.relative_to(root).as_posix(), split, (folder.name,)) for path in images
        ]
    if links := sorted(dict.fromkeys(links)):
        found.notes.append(f"warning: {_count(links, 'link')} not followed: {_listed(links)}")
    return found


def _class_folders(
    root: pathlib.Path, data: Data, notes: list[str], links: list[str]
) -> list[tuple[str, pathlib.Path]]:
    """Each class folder with its split, none where the data state none; and notes of how that was decided."""
    first = sub_folders(root, root, links)
    inside = {folder: sub_folders(folder, root, links) for folder in first}
    splits = {folder: name for folder in first if inside[folder] and (name := standard_split(folder.name))}
    if splits:
        _refuse_twice(splits, data)
        _refuse_stray(splits, data)
        notes += _beside(root, first, splits)
        return [(name, one) for folder, name in splits.items() for one in inside[folder]]
    _refuse_stray([root], data)
    flat = [folder for folder in first if standard_split(folder.name)]
    others = [folder for folder in first if folder not in flat]
    if not flat:
        return [("", folder) for folder in first]
    if not any(inside[folder] or _images(folder) for folder in others):
        folders = ", ".join(folder.name for folder in flat)
        raise UserError("data.name", data.name, f"there are no class folders in {folders}; images belong in {LAYOUT}")
    if any(inside.values()):
        notes.append(f"warning: left out {_names(flat)}, called as splits are and without class folders")
        return [("", folder) for folder in others]
    notes.append(f"{_names(flat)}, called as splits are, taken for classes: all folders hold images and no folders")
    return [("", folder) for folder in first]


def _refuse_twice(splits: dict[pathlib.Path, str], data: Data) -> None:
    for split in dict.fromkeys(splits.values()):
        same = [folder.name for folder, name in splits.items() if name == split]
        if len(same) > 1:
            raise UserError("data.name", data.name, f"{' and '.join(same)} are both {split}; leave one of them")


def _refuse_below(images: Sequence[ImageFile], root: pathlib.Path, data: Data) -> None:
    """Refuses folders with a split's name within classes: their images would silently be of one class or split."""
    below: dict[pathlib.PurePath, bool] = {}  # and whether there are folders in it, as those of classes
    for image in images:
        path = pathlib.PurePath(image.name)
        found = split_below(path.parent / "_", 2 if image.split else 1, image.split or None)
        if found is not None:
            below[found] = below.get(found, False) or found != path.parent
    if not below:
        return
    parent = next((folder.parent for folder, with_folders in below.items() if with_folders), None)
    listed = _listed(sorted(folder.as_posix() for folder in below))
    message = f"{listed}: called as splits are, within a class; splits come before classes (train/cat/1.jpg)"
    if parent is not None:
        message += f"; if {parent.as_posix()} holds the splits, write --config.data.name=folder:{root / parent}"
    raise UserError("data.name", data.name, f"{message}; rename what is no split")


def _refuse_stray(folders: Sequence[pathlib.Path] | dict[pathlib.Path, str], data: Data) -> None:
    """Refuses images that lie beside class folders."""
    for folder in folders:
        if stray := _images(folder):
            raise UserError("data.name", data.name, f"{stray[0]} is in no class folder; images belong in {LAYOUT}")


def _beside(root: pathlib.Path, first: Sequence[pathlib.Path], splits: dict[pathlib.Path, str]) -> list[str]:
    """Notes of what stands beside the folders of splits and isn't used."""
    unlabelled = [folder for folder in first if folder not in splits and standard_split(folder.name)]
    unknown = [folder for folder in first if folder not in splits and folder not in unlabelled]
    notes = []
    if unlabelled:
        notes.append(f"warning: left out {_names(unlabelled)}, without class folders: images there have no labels")
    if unknown:
        notes.append(f"warning: left out {_names(unknown)}, beside {_names(list(splits))} and no split's name")
    if stray := _images(root):
        notes.append(f"warning: left out {_count(stray, 'image')} beside {_names(list(splits))}")
    return notes


def _images(folder: pathlib.Path) -> list[pathlib.Path]:
    """Those that lie in a folder itself."""
    return sorted(one for one in folder.iterdir() if is_image(one) and is_visible(one.name) and one.is_file())


def _ignored(others: Sequence[str]) -> list[str]:
    """A note of the files that are no images, by their endings."""
    if not others:
        return []
    some = "1 file that is no image" if len(others) == 1 else f"{len(others):,} files that are no images"
    return [f"ignored {some}: {_listed(others)}"]


def _count(things: Sequence, what: str) -> str:
    return f"{len(things):,} {what}{'s' * (len(things) != 1)}"


def _names(folders: Sequence[pathlib.Path]) -> str:
    return ", ".join(folder.name for folder in folders)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
