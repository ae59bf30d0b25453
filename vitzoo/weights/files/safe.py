"""safetensors files, one or many by an index, mapped."""

import functools
import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from vitzoo.errors import Refused
from vitzoo.weights.files.source import Tensors

INDEX = ".index.json"


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
    except (SafetensorError, TypeError, ValueError) as error:
        raise Refused("checkpoint", name, f"can't be read within {key} ({error})") from None


def parts_of(index: Path, name: str) -> dict[str, list[str]]:
    """The files that an index names, and the arrays that each shall hold.

    Raises:
        Refused: it can't be read, names a file outside its folder, or one that isn't there.
    """
    try:
        where = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        parts: dict[str, list[str]] = {}
        for key, file in where.items():
            parts.setdefault(str(file), []).append(key)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused("checkpoint", name, f"{index.name} can't be read ({error})") from None
    for file in parts:
        if Path(file).name != file:
            raise Refused("checkpoint", name, f"{index.name} names {file}, which isn't a file beside it")
        if not (index.parent / file).is_file():
            raise Refused("checkpoint", name, f"{index.name} names {file}, which isn't there")
    return parts
