"""Every image file of a folder or list is read and decoded once; what was found is kept by path, size and time."""

import dataclasses
import hashlib
import io
import os
import pathlib
import sys
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from vitzoo.data.folders import cache_folder
from vitzoo.data.image_files import BadImage, open_image
from vitzoo.data.images import decode
from vitzoo.data.modes import stored_channels
from vitzoo.data.progress import progress
from vitzoo.errors import RunError
from vitzoo.outputs import write_whole
from vitzoo.paths import strange_kind
from vitzoo.staging import remove_leftovers

CHECKSUM = 8  # hexadecimal digits of a CRC-32, before what is kept
FORMAT = 3  # raised when the meaning of what is kept changes, or what counts as readable


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """What is known of a file: why it can't be read (empty: it can), its size as shown, and of its bytes a checksum and
    how many there are.
    """

    error: str = ""
    height: int = 0
    width: int = 0
    channels: int = 0
    checksum: int = 0
    bytes: int = 0


Key = tuple[str, int, int]  # path, bytes, nanoseconds of the last change


def index_files(paths: Sequence[str], what: str) -> list[FileFacts]:
    """Facts of each file, decoded now unless the cache knows it. A cache that can't be written is done without."""
    keys = [_key(path) for path in paths]
    cache = _cache_path(paths)
    known = _read_cache(cache)
    new = list(dict.fromkeys(key for key in keys if key not in known))
    if new:
        with ThreadPoolExecutor(max(2, min(32, os.cpu_count() or 2))) as threads:
            facts = threads.map(lambda key: examine(key[0]), new)
            known.update(zip(new, progress(facts, len(new), f"reading {what}"), strict=True))
        current = {key[0] for key in keys}  # older facts of these files go, those of other lists of files stay
        kept = {key: facts for key, facts in known.items() if key[0] not in current}
        _write_cache(cache, kept | {key: known[key] for key in keys})
    return [known[key] for key in keys]


def examine(path: str) -> FileFacts:
    """Reads and decodes one file to its end."""
    if what := strange_kind(path):
        return FileFacts(error=f"is {what}, not a file")
    try:
        content = pathlib.Path(path).read_bytes()
        height, width = decode(content).shape[:2]
        channels = stored_channels(open_image(content))
    except BadImage as error:
        return FileFacts(error=error.reason)
    except OSError as error:
        return FileFacts(error="no such file" if isinstance(error, FileNotFoundError) else str(error.strerror))
    return FileFacts("", height, width, channels, zlib.crc32(content), len(content))


def _key(path: str) -> Key:
    try:
        status = os.stat(path)
    except OSError:
        return path, -1, -1
    return path, status.st_size, status.st_mtime_ns


def _cache_path(paths: Iterable[str]) -> pathlib.Path:
    folders = sorted({os.path.dirname(path) for path in paths})
    name = hashlib.sha256(f"{FORMAT}\0{os.path.commonpath(folders) if folders else ''}".encode()).hexdigest()[:24]
    return cache_folder() / "index" / f"{name}.index"


def _read_cache(path: pathlib.Path) -> dict[Key, FileFacts]:
    """What was kept; nothing where the file isn't there or is damaged."""
    try:
        content = path.read_bytes()
        checksum, arrays = content[:CHECKSUM], content[CHECKSUM:]
        if checksum != _checksum(arrays):
            return {}
        with np.load(io.BytesIO(arrays), allow_pickle=False) as kept:
            texts = [
                kept[name].tobytes().decode("utf-8", "surrogateescape").split("\0") for name in ("paths", "errors")
            ]
            numbers = kept["numbers"].tolist()
    except (OSError, ValueError, KeyError):
        return {}
    rows = zip(texts[0], texts[1], numbers, strict=True)
    return {(file, size, time): _facts(error, facts, size) for file, error, (size, time, *facts) in rows}


def _facts(error: str, numbers: Sequence[int], size: int) -> FileFacts:
    height, width, channels, checksum = numbers
    return FileFacts(error, height, width, channels, checksum, size)


def _write_cache(path: pathlib.Path, known: dict[Key, FileFacts]) -> None:
    """Written beside and renamed, so that processes that share the cache never see half of it."""
    known = {key: facts for key, facts in known.items() if key[1] >= 0}
    texts = ["\0".join(key[0] for key in known), "\0".join(facts.error.replace("\0", " ") for facts in known.values())]
    numbers = [(key[1], key[2], f.height, f.width, f.channels, f.checksum) for key, f in known.items()]
    arrays = [np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8) for text in texts]
    packed = io.BytesIO()
    np.savez_compressed(packed, paths=arrays[0], errors=arrays[1], numbers=np.array(numbers, np.int64))
    content = _checksum(packed.getvalue()) + packed.getvalue()
    try:
        write_whole(path, lambda partial: partial.write_bytes(content))
        remove_leftovers(path.parent)
    except RunError as failure:
        print(f"warning: the index of images isn't kept: {failure}", file=sys.stderr)


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)
