"""NumPy archives (`.npz`), read array by array and without pickle."""

import contextlib
import functools
import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import ml_dtypes
import numpy as np

from vitzoo.checkpoints.arrays import growth
from vitzoo.errors import UserError
from vitzoo.weights.files.source import Header, Tensors

MOST_DIMENSIONS = 32
PIECE = 2**22  # bytes read at once
LONGEST_HEADER = 10_000  # bytes; NumPy trusts no longer one, and writes about 100
LARGEST_NUMBER = 64  # bytes; of text or records, which are never weights but may stand beside them
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
LENGTHS = {(1, 0): 2, (2, 0): 4}
"""Bytes that the length of a header takes, by version."""
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)


def read_npz(path: Path, name: str) -> Tensors:
    """The arrays of an archive.

    Args:
        path: of the file.
        name: as it was asked for.

    Raises:
        UserError: it is damaged, names an array twice, has an array that isn't of plain numbers, or would grow without
            measure. Headers are read here, numbers when an array is looked at.
    """
    try:
        archive = zipfile.ZipFile(path)
        entries, packed = archive.infolist(), path.stat().st_size
    except DAMAGED as error:
        raise UserError("checkpoint", name, f"is no archive of NumPy, or cut off ({error})") from None
    readers, headers, sizes = {}, {}, {}
    for entry in entries:
        key = entry.filename.removesuffix(".npy")
        if key in readers:
            raise UserError("checkpoint", name, f"holds {key} twice")
        found = _described(archive, entry, key, name)
        readers[key] = functools.partial(_array, archive, entry, key, name)
        sizes[key] = entry.file_size
        headers[key] = functools.partial(Header, found.shape, _meant(found.dtype))
    check_growth(sizes, packed, name)
    return Tensors(readers, headers)


def check_growth(sizes: Mapping[str, int], packed: int, name: str) -> None:
    """Refuses arrays whose `sizes` in bytes are so much more than the `packed` ones on disk as no weights' are."""
    if reason := growth({key.removesuffix(".npy"): size for key, size in sizes.items()}, packed):
        raise UserError("checkpoint", name, reason)


def _described(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, key: str, name: str) -> Header:
    """What an entry's header says, which must be as much as it holds."""
    with _refusals(entry, key, name), archive.open(entry) as file:
        shape, _, dtype = _header(file)
        if dtype.hasobject:
            raise UserError("checkpoint", name, f"holds objects ({key}), which could run code; only numbers are read")
        claimed, held = math.prod(shape) * dtype.itemsize, entry.file_size - file.tell()
        if claimed != held:
            raise ValueError(f"its header tells of {claimed:,} bytes of numbers, and there are {held:,}")
    return Header(shape, dtype)


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, key: str, name: str) -> np.ndarray:
    with _refusals(entry, key, name), archive.open(entry) as file:
        shape, by_columns, dtype = _header(file)
        numbers = _bytes(file, entry.file_size - file.tell()).view(dtype)
        array = numbers.reshape(shape[::-1]).T if by_columns else numbers.reshape(shape)
    return array.view(_meant(array.dtype))


def _meant(dtype: np.dtype) -> np.dtype:
    """NumPy has no bfloat16 of its own and saves it as two bytes without meaning."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == np.dtype("V2") else dtype


@contextlib.contextmanager
def _refusals(entry: zipfile.ZipInfo, key: str, name: str) -> Iterator[None]:
    """What reading an entry raises, as a refusal that names its array."""
    try:
        yield
    except DAMAGED as error:
        raise UserError("checkpoint", name, f"is damaged within {key} ({error})") from None
    except MemoryError:
        raise UserError(
            "checkpoint", name, f"has {key} of {entry.file_size:,} bytes: too many for the memory"
        ) from None


def _bytes(file: IO[bytes], held: int) -> np.ndarray:
    """All that is left of an entry, held once."""
    numbers = np.empty(held, np.uint8)
    for start in range(0, held, PIECE):
        part = file.read(min(PIECE, held - start))
        if not part:
            raise ValueError("cut off")
        numbers[start : start + PIECE] = np.frombuffer(part, np.uint8)
    return numbers


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the first axis runs fastest, and type.

    Raises:
        ValueError: it is no header, or of what can't be numbers.
    """
    try:
        version = np.lib.format.read_magic(file)
        read = HEADERS.get(version)
        with warnings.catch_warnings(action="ignore"):  # of headers that Python 2 wrote
            shape, by_columns, dtype = read(_start(file, version)) if read else ((), False, np.dtype(np.uint8))
    except Exception as error:  # its text is parsed as a program's, which fails in many ways
        raise ValueError(f"its header is no array's: {type(error).__name__}") from None
    if read is None:
        raise ValueError(f"its header is of version {version[0]}.{version[1]}")
    if len(shape) > MOST_DIMENSIONS or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"its header has shape = {str(shape)[:60]}; up to {MOST_DIMENSIONS} sizes are right")
    if dtype.subdtype is not None or dtype.itemsize == 0 or dtype.itemsize > LARGEST_NUMBER:
        raise ValueError(f"its header has descr = {str(dtype)[:60]}, which is no number's")
    return shape, by_columns, dtype


def _start(file: IO[bytes], version: tuple[int, int]) -> IO[bytes]:
    """What NumPy is to read: a header's length and as many bytes, of which it would take any number into memory."""
    length = file.read(LENGTHS[version])
    size = int.from_bytes(length, "little")
    if size > LONGEST_HEADER:
        raise ValueError(f"a length of {size:,} bytes")
    return io.BytesIO(length + file.read(size))
