"""safetensors files, one or many by an index, mapped."""

import functools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from vitzoo.errors import UserError
from vitzoo.strict_json import parsed
from vitzoo.weights.files.json_file import read_json
from vitzoo.weights.files.source import Header, Tensors

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
        _check_names(path)
        file = safe_open(path, framework="numpy")
        keys = list(file.keys())
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError("checkpoint", name, f"{path.name} is no safetensors file, or cut off ({error})") from None
    readers = {key: functools.partial(_array, file, key, name) for key in keys}
    headers = {key: functools.partial(_header, file, key, name) for key in keys}
    return Tensors(readers, headers)


def _check_names(path: Path) -> None:
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


def _header(file, key: str, name: str) -> Header:
    found = file.get_slice(key)
    if (kind := TYPES.get(found.get_dtype())) is None:
        array = _array(file, key, name)
        return Header(array.shape, array.dtype)
    return Header(tuple(found.get_shape()), np.dtype(kind))


def _array(file, key: str, name: str) -> np.ndarray:
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
