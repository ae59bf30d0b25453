"""The list of a checkpoint's files with their sizes and checksums: what makes a folder a checkpoint.

Orbax commits a checkpoint atomically but keeps no checksums: a flipped bit in an array is loaded as if it were right.
The manifest is written last, inside Orbax's temporary folder, so the commit covers it.
"""

import json
import re
from pathlib import Path, PurePosixPath

from vitzoo import strict_json
from vitzoo.checksums import crc32

MANIFEST = "manifest.json"
VERSION = 1
# Orbax rewrites these while it commits, after the manifest; they hold no values.
_REWRITTEN = {"_CHECKPOINT_METADATA", "commit_success.txt"}
# what file systems and file managers add by themselves, and nobody reads
_OF_THE_SYSTEM = re.compile(r"[.]DS_Store|[.]_.*|[.]nfs[0-9a-f]+|Thumbs[.]db|desktop[.]ini")


class Damaged(Exception):
    """A checkpoint folder whose files are not those that were saved; `file` is the first at fault."""

    def __init__(self, file: Path, reason: str):
        self.file, self.reason = file, reason
        super().__init__(f"{file}: {reason}")


def write(folder: Path) -> None:
    """Write `manifest.json` into `folder`, listing every file below it."""
    files = {
        name: {"size": path.stat().st_size, "crc32": crc32(path)}
        for name, path in _below(folder).items()
        if path.is_file()
    }
    (folder / MANIFEST).write_text(json.dumps({"version": VERSION, "files": files}, indent=1) + "\n")


def read(folder: Path) -> dict[str, dict]:
    """The manifest's entries: path below `folder` to `{"size", "crc32"}`.

    Raises:
        Damaged: there is no readable manifest.
    """
    file = folder / MANIFEST
    try:
        content = strict_json.read(file)
    except FileNotFoundError:
        raise Damaged(file, "is missing, so this is no complete checkpoint") from None
    except (ValueError, OSError) as error:
        raise Damaged(file, f"can't be read ({error})") from None
    if not isinstance(content, dict) or not {"version", "files"} <= set(content):
        raise Damaged(file, "is no manifest of vitzoo: an object with version and files is right")
    if content["version"] != VERSION:
        raise Damaged(file, f"is of version {content['version']!s:.40}, this vitzoo reads {VERSION}")
    entries = content["files"]
    if not isinstance(entries, dict):
        raise Damaged(file, "lists no files: an object with size and crc32 of each is right")
    for name, entry in entries.items():
        known = entry if isinstance(entry, dict) else {}
        if type(known.get("size")) is not int or not isinstance(known.get("crc32"), str):
            raise Damaged(file, f"gives {name} no size in whole bytes, or no checksum")
    return entries


def verify(folder: Path) -> None:
    """Compare every file of a checkpoint with its manifest.

    Raises:
        Damaged: a file is missing, of another length, or its checksum differs, or there is a file or a folder that
            wasn't saved; the first is named.
    """
    saved = read(folder)
    _check_nothing_added(folder, saved)
    for name, entry in saved.items():
        file = folder / name
        if not file.is_file():
            raise Damaged(file, "is missing")
        if (size := file.stat().st_size) != entry["size"]:
            raise Damaged(file, f"has {size} bytes, {entry['size']} were saved")
        if (found := crc32(file)) != entry["crc32"]:
            raise Damaged(file, f"has checksum {found}, {entry['crc32']} was saved")


def _below(folder: Path) -> dict[str, Path]:
    """What a manifest speaks of: files and folders by their path below a checkpoint's folder."""
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    return {
        name: path
        for name, path in found.items()
        if name != MANIFEST and path.name not in _REWRITTEN and not _is_of_the_system(path)
    }


def _is_of_the_system(path: Path) -> bool:
    return bool(_OF_THE_SYSTEM.fullmatch(path.name)) and path.is_file()


def _check_nothing_added(folder: Path, saved: dict[str, dict]) -> None:
    """Whatever stands beside the files that were saved would be used: an item `ema` of another run as this one's."""
    folders = {parent.as_posix() for name in saved for parent in PurePosixPath(name).parents}
    for name, path in _below(folder).items():
        if name not in saved and name not in folders:
            raise Damaged(path, "was not saved with this checkpoint; move it away")
