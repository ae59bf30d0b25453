"""NumPy archives (`.npz`), read array by array and without pickle."""

import functools
import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

import ml_dtypes
import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.files.source import Tensors

LARGEST_RATIO, ALWAYS_FINE = 1000, 2**30  # of numbers to bytes on disk; bytes of numbers
PIECE = 2**22  # bytes read at once
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)


def read_npz(path: Path, name: str) -> Tensors:
    """The arrays of an archive.

    Args:
        path: of the file.
        name: as it was asked for.

    Raises:
        Refused: it is damaged, names an array twice, holds objects, or would grow without measure.
    """
    try:
        archive = zipfile.ZipFile(path)
        entries, packed = archive.infolist(), path.stat().st_size
    except DAMAGED as error:
        raise Refused("checkpoint", name, f"is no archive of NumPy, or cut off ({error})") from None
    size = sum(entry.file_size for entry in entries)
    if size > max(ALWAYS_FINE, LARGEST_RATIO * packed):
        raise Refused("checkpoint", name, f"would grow from {packed:,} to {size:,} bytes: no weights do")
    readers = {}
    for entry in entries:
        key = entry.filename.removesuffix(".npy")
        if key in readers:
            raise Refused("checkpoint", name, f"holds {key} twice")
        readers[key] = functools.partial(_array, archive, entry, key, name)
    return Tensors(readers)


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, key: str, name: str) -> np.ndarray:
    try:
        with archive.open(entry) as file:
            shape, by_columns, dtype = _header(file)
            if dtype.hasobject:
                raise Refused("checkpoint", name, f"holds objects ({key}), which could run code; only numbers are read")
            numbers = _bytes(file, math.prod(shape) * dtype.itemsize, entry.file_size - file.tell()).view(dtype)
            array = numbers.reshape(shape[::-1]).T if by_columns else numbers.reshape(shape)
    except DAMAGED as error:
        raise Refused("checkpoint", name, f"is damaged within {key} ({error})") from None
    except MemoryError:
        raise Refused("checkpoint", name, f"has {key} of {entry.file_size:,} bytes: too many for the memory") from None
    # NumPy has no bfloat16 of its own and saves it as two bytes without meaning
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array


def _bytes(file: IO[bytes], claimed: int, held: int) -> np.ndarray:
    """All that is left of an entry, which is what its header claims, held once."""
    if claimed != held:
        raise ValueError(f"its header tells of {claimed:,} bytes of numbers, and there are {held:,}")
    numbers = np.empty(held, np.uint8)
    for start in range(0, held, PIECE):
        part = file.read(min(PIECE, held - start))
        if not part:
            raise ValueError("cut off")
        numbers[start : start + PIECE] = np.frombuffer(part, np.uint8)
    return numbers


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the first axis runs fastest, and type."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(file)
    except Exception as error:  # its text is parsed as a program's, which fails in many ways
        raise ValueError(f"its header is no array's: {type(error).__name__}") from None
    raise ValueError(f"its header is of version {version[0]}.{version[1]}")
