"""safetensors files, one or many by an index, mapped."""

import functools
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from vitzoo.errors import Refused
from vitzoo.weights.files.json_file import read_json
from vitzoo.weights.files.source import Tensors

INDEX = ".index.json"
LONGEST_NAME = 255  # bytes of a file's name, on every common file system


def read_safetensors(path: Path, name: str) -> Tensors:
    """The arrays of a file.

    Raises:
        Refused: it is no such file, or cut off.
    """
    try:
        file = safe_open(path, framework="numpy")
        keys = list(file.keys())
    except (SafetensorError, OSError) as error:
        raise Refused("checkpoint", name, f"{path.name} is no safetensors file, or cut off ({error})") from None
    return Tensors({key: functools.partial(_array, file, key, name) for key in keys})


def _array(file, key: str, name: str) -> np.ndarray:
    try:
        return file.get_tensor(key)
    except Exception as error:  # the library raises many kinds, AttributeError for types that NumPy lacks
        kind = file.get_slice(key).get_dtype()
        message = f"has {key} of type {kind}, which can't be read ({type(error).__name__}: {error})"
        raise Refused("checkpoint", name, message) from None


def parts_of(index: Path, name: str) -> dict[str, list[str]]:
    """The files that an index names, and the arrays that each shall hold.

    Raises:
        Refused: it can't be read, names a file outside its folder, itself or another index, or one that isn't there.
    """
    where = read_json(index).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise Refused("checkpoint", name, f"{index.name} has no weight_map, which says where each array is")
    parts: dict[str, list[str]] = {}
    for key, file in where.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise Refused("checkpoint", name, f"{index.name} names {str(file)[:80]!r}, which isn't a file beside it")
        parts.setdefault(file, []).append(key)
    for file in parts:
        if file.endswith(INDEX):
            raise Refused("checkpoint", name, f"{index.name} names {file[:80]}, which is an index, not weights")
        if len(file.encode()) > LONGEST_NAME or "\0" in file or not (index.parent / file).is_file():
            raise Refused("checkpoint", name, f"{index.name} names {file[:80]!r}, which isn't there")
    return parts
