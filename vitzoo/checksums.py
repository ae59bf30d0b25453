"""What files hold, in eight digits: how damage is found."""

import json
import os
import zlib
from pathlib import Path

from vitzoo import strict_json

LIST = "checksums.json"
_CHUNK = 1 << 20
_seen: dict[tuple[str, int, int, int], str] = {}


def crc32(file: Path) -> str:
    """The CRC-32 of a file as 8 hexadecimal digits."""
    value = 0
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return f"{value:08x}"


def write_list(folder: Path) -> None:
    """Lists the files of a folder with their lengths and checksums in `checksums.json`."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    listed = {name: {"size": path.stat().st_size, "crc32": crc32(path)} for name, path in files.items()}
    (folder / LIST).write_text(json.dumps(listed))


def fits_list(folder: Path) -> bool:
    """Whether a folder holds what `write_list` listed. A process reads a file once, unless it changes."""
    try:
        listed = strict_json.read(folder / LIST)
        return all(_is_as_listed(folder / name, entry["size"], entry["crc32"]) for name, entry in listed.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _is_as_listed(file: Path, size: int, checksum: str) -> bool:
    status = os.stat(file)
    if status.st_size != size:
        return False
    key = str(file), status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    if key not in _seen:
        _seen[key] = crc32(file)
    return _seen[key] == checksum
