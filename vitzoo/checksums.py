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
    """Lists the files of a folder with their lengths and checksums in `checksums.json`, which has a checksum itself."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    listed = {name: {"size": path.stat().st_size, "crc32": crc32(path)} for name, path in files.items()}
    (folder / LIST).write_text(json.dumps({"files": listed, "crc32": _of_list(listed)}))


def _of_list(listed: dict[str, dict[str, object]]) -> str:
    return f"{zlib.crc32(json.dumps(listed, sort_keys=True).encode()):08x}"


def fits_list(folder: Path) -> bool:
    """Whether a folder holds what `write_list` listed. A process reads a file once, unless it changes."""
    return damage(folder) is None


def damage(folder: Path, largest: int | None = None) -> tuple[Path, str] | None:
    """The first file of a folder that isn't what `write_list` listed, and what is wrong with it; None where all are.

    Args:
        folder: with its list.
        largest: bytes of the largest file that is read; of larger ones the length is compared. None reads all.
    """
    file = folder / LIST
    try:
        content = strict_json.read(file)
        listed, whole = content["files"], content["crc32"] == _of_list(content["files"])
        entries = [(folder / name, int(entry["size"]), str(entry["crc32"])) for name, entry in listed.items()]
    except OSError as error:
        return file, f"can't be read ({error.strerror or error})"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return file, "is damaged"
    if not whole:  # else files that are gone with their entries wouldn't be missed
        return file, "is damaged: its checksum isn't the one that was written"
    if not entries:
        return file, "lists no file"
    for file, size, checksum in entries:
        try:
            if fault := _fault(file, size, checksum, largest):
                return file, fault
        except FileNotFoundError:
            return file, "is missing"
        except (OSError, ValueError) as error:
            return file, f"can't be read ({getattr(error, 'strerror', None) or error})"
    return None


def _fault(file: Path, size: int, checksum: str, largest: int | None) -> str:
    status = os.stat(file)
    if status.st_size != size:
        return f"is damaged: it has {status.st_size:,} bytes, and {size:,} were written"
    if largest is not None and size > largest:
        return ""
    key = str(file), status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    if key not in _seen:
        _seen[key] = crc32(file)
    return "" if _seen[key] == checksum else "is damaged: its checksum isn't the one that was written"
