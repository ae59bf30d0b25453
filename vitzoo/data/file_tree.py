"""Files below folders, where links may lead anywhere: no folder is entered twice, and none that lies above."""

import collections
import os
import pathlib
from collections.abc import Sequence

IGNORED = {"__MACOSX", "Thumbs.db", "desktop.ini"}


def is_visible(name: str) -> bool:
    """Whether a file or folder is looked at: names that begin with a dot aren't, nor what systems leave behind."""
    return not name.startswith(".") and name not in IGNORED


def is_broken(path: pathlib.Path) -> bool:
    """Whether a path is a link that leads nowhere."""
    return path.is_symlink() and not path.exists()


def broken_links(folder: pathlib.Path) -> list[pathlib.Path]:
    """The visible links in a folder that lead nowhere, sorted.

    Raises:
        OSError: the folder can't be read.
    """
    return sorted(entry for entry in folder.iterdir() if is_visible(entry.name) and is_broken(entry))


def sub_folders(folder: pathlib.Path, root: pathlib.Path, left_out: list[str]) -> list[pathlib.Path]:
    """The visible folders in a folder, sorted; links that lead to a folder above them are named in `left_out`.

    Args:
        folder: where they lie.
        root: that they are named relative to; it, and what is above it, counts as above them.
        left_out: is added to.

    Raises:
        OSError: the folder can't be read.
    """
    found = []
    for entry in sorted(folder.iterdir()):
        if is_visible(entry.name) and entry.is_dir():
            if _leads_up(entry, root):
                left_out.append(_said(entry, root, "leads to a folder above it"))
            else:
                found.append(entry)
    return found


def files_below(
    starts: Sequence[pathlib.Path], root: pathlib.Path, left_out: list[str]
) -> list[list[pathlib.Path] | None]:
    """The visible files at any depth below each of several folders. Links are followed, after all that lies below the
    folders without one; no folder is entered twice.

    Args:
        starts: folders below `root`, or it.
        root: as in `sub_folders`.
        left_out: a line is added for each link that isn't followed.

    Returns:
        Of each start its files, in no certain order; None where it is another of them, or below one.

    Raises:
        OSError: a folder can't be read.
    """
    entered: set[str] = set()
    found: list[list[pathlib.Path] | None] = [None] * len(starts)
    waiting: collections.deque[tuple[int, pathlib.Path]] = collections.deque()

    def enter(number: int, start: pathlib.Path) -> None:
        open_folders = [start]
        while open_folders:
            here = open_folders.pop()
            real = os.path.realpath(here)
            if real in entered:
                left_out.append(_said(here, root, "is read already"))
                continue
            entered.add(real)
            files = found[number] = found[number] or []
            for entry in sorted(here.iterdir(), reverse=True):
                if not is_visible(entry.name):
                    continue
                if not entry.is_dir():
                    files.append(entry)
                elif not entry.is_symlink():
                    open_folders.append(entry)
                elif _leads_up(entry, root):
                    left_out.append(_said(entry, root, "leads to a folder above it"))
                else:
                    waiting.append((number, entry))

    real_root = os.path.realpath(root)
    for number, start in enumerate(starts):
        linked = os.path.realpath(start) != os.path.normpath(os.path.join(real_root, start.relative_to(root)))
        if linked:
            waiting.append((number, start))
        else:
            enter(number, start)
    while waiting:
        enter(*waiting.popleft())
    return found


def _leads_up(folder: pathlib.Path, root: pathlib.Path) -> bool:
    """Whether a link leads to a folder that it lies in, to the root, or above that."""
    if not folder.is_symlink():
        return False
    target = os.path.realpath(folder)
    return any(os.path.commonpath([target, os.path.realpath(one)]) == target for one in (folder.parent, root))


def _said(folder: pathlib.Path, root: pathlib.Path, why: str) -> str:
    what = folder.relative_to(root).as_posix() if folder != root else str(folder)
    return f"{what} → {os.path.realpath(folder)} ({why})"
