"""Files of nothing but arrays by name: NumPy's archives (`.npz`), read without pickle, and safetensors."""

import contextlib
import functools
import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from vitzoo.checkpoints.arrays import growth
from vitzoo.errors import UserError
from vitzoo.strict_json import parsed
from vitzoo.weights.files.weights import Header, Stored, Tensors, read_json

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
    stored, sizes = {}, {}
    for entry in entries:
        key = entry.filename.removesuffix(".npy")
        if key in stored:
            raise UserError("checkpoint", name, f"holds {key} twice")
        found = _described(archive, entry, key, name)
        header = functools.partial(Header, found.shape, _meant(found.dtype))
        stored[key] = Stored(functools.partial(_array, archive, entry, key, name), header)
        sizes[key] = entry.file_size
    check_growth(sizes, packed, name)
    return Tensors(stored)


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


INDEX = ".index.json"
LONGEST_NAME = 255  # bytes of a file's name, on every common file system
LARGEST_HEADER = 10**8  # bytes, as the library has it
LENGTH = 8  # bytes of the number before the header
TYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "BOOL": np.bool_,
    **{f"{kind}{bits}": f"{code}{bits // 8}" for kind, code in (("I", "i"), ("U", "u")) for bits in (8, 16, 32, 64)},
}
"""Types as the format names them; of another, the library says whether it can be read."""


def read_safetensors(path: Path, name: str) -> Tensors:
    """The arrays of a file.

    Raises:
        UserError: it is no such file, cut off, or names an array twice.
    """
    try:
        _check_header_names(path)
        file = safe_open(path, framework="numpy")
        keys = list(file.keys())
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError("checkpoint", name, f"{path.name} is no safetensors file, or cut off ({error})") from None
    read, header = functools.partial(_safetensors_array, file, name), functools.partial(_safetensors_header, file, name)
    return Tensors({key: Stored(functools.partial(read, key), functools.partial(header, key)) for key in keys})


def _check_header_names(path: Path) -> None:
    """Raises ValueError where the file's header, an object of JSON, names an array or one of its settings twice: the
    library takes the last, other readers the first.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        if length > min(LARGEST_HEADER, path.stat().st_size):
            raise ValueError(f"its header would have {length:,} bytes")
        try:
            parsed(file.read(length))
        except RecursionError:
            raise ValueError("is nested too deeply") from None


def _safetensors_header(file, name: str, key: str) -> Header:
    found = file.get_slice(key)
    if (kind := TYPES.get(found.get_dtype())) is None:
        array = _safetensors_array(file, name, key)
        return Header(array.shape, array.dtype)
    return Header(tuple(found.get_shape()), np.dtype(kind))


def _safetensors_array(file, name: str, key: str) -> np.ndarray:
    try:
        return file.get_tensor(key)
    except Exception as error:  # the library raises many kinds, AttributeError for types that NumPy lacks
        kind = file.get_slice(key).get_dtype()
        message = f"has {key} of type {kind}, which can't be read ({type(error).__name__}: {error})"
        raise UserError("checkpoint", name, message) from None


def parts_of(index: Path, name: str) -> dict[str, list[str]]:
    """The files that an index names, and the arrays that each shall hold.

    Raises:
        UserError: it can't be read, names a file outside its folder, itself or another index, or one that isn't there.
    """
    where = read_json(index).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise UserError("checkpoint", name, f"{index.name} has no weight_map, which says where each array is")
    parts: dict[str, list[str]] = {}
    for key, file in where.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise UserError("checkpoint", name, f"{index.name} names {str(file)[:80]!r}, which isn't a file beside it")
        parts.setdefault(file, []).append(key)
    for file in parts:
        if file.endswith(INDEX):
            raise UserError("checkpoint", name, f"{index.name} names {file[:80]}, which is an index, not weights")
        if len(file.encode()) > LONGEST_NAME or "\0" in file or not (index.parent / file).is_file():
            raise UserError("checkpoint", name, f"{index.name} names {file[:80]!r}, which isn't there")
    return parts
