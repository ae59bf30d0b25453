"""Checkpoints of t5x: a folder with an index and a TensorStore array for each parameter.

Its own index is the file `checkpoint` (msgpack), and the arrays lie beside it. Newer ones are written by Orbax: index
and arrays are in the folder `state`, and the index is `checkpoint` without a version, or `_METADATA` (JSON).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.weights.files.source import Tensors
from vitzoo.weights.files.tensorstore_folder import HEADER, OCDBT, array_names, read_arrays, short

INDEX, TREE, STATE = "checkpoint", "_METADATA", "state"
LARGEST = 2**28  # bytes of an index; it may hold norms and biases itself
TARGET = "target."
"""Before the names of the model's parameters; the optimizer's are below `state.`."""


def is_t5x(folder: Path) -> bool:
    """Whether a folder is a checkpoint of t5x."""
    return _arrays(folder) is not None


def read_t5x(folder: Path, name: str) -> Tensors:
    """The model's parameters, named with slashes, without `target/`.

    Args:
        folder: the checkpoint's, or its folder `state`.
        name: as it was asked for.

    Raises:
        UserError: it is damaged, or older than version 3 (of 2021).
    """
    arrays = _arrays(folder)
    if arrays is None:
        raise UserError("checkpoint", name, "is no checkpoint of t5x")
    paths = {path.removeprefix(TARGET).replace(".", "/"): path for path in array_names(arrays, TARGET, name)}
    inside = _inside(arrays, name)
    return read_arrays(arrays, paths, name).beside(inside)


def _arrays(folder: Path) -> Path | None:
    """Where the arrays are: in the folder, or in `state` below it."""
    return next((place for place in (folder, folder / STATE) if _has_target(place)), None)


def _has_target(folder: Path) -> bool:
    if not (folder / OCDBT).is_file():
        return next(folder.glob(f"{TARGET}*/{HEADER}"), None) is not None
    if (folder / INDEX).is_file():
        return True
    try:  # any program's Orbax writes this
        with open(folder / TREE, "rb") as file:
            return b"('target', " in file.read(LARGEST)
    except OSError:
        return False


def _inside(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Parameters that the index holds itself (those that weren't spread over devices)."""
    index = folder / INDEX
    if not index.is_file():
        if (folder / TREE).is_file():
            return {}
        raise UserError("checkpoint", name, f"has no index ({INDEX} or {TREE}): it isn't the whole checkpoint")
    import flax.serialization

    try:
        if index.stat().st_size > LARGEST:
            raise ValueError(f"has more than {LARGEST:,} bytes")
        content = flax.serialization.msgpack_restore(index.read_bytes())
        own = "optimizer" in content
        version, target = content["version"] if own else 3, (content["optimizer"] if own else content)["target"]
        leaves = _leaves(target, "")
    except Exception as error:  # the library raises many kinds for a damaged file
        raise UserError("checkpoint", name, f"{index.name} is no index of t5x ({short(error)})") from None
    if version != 3:
        raise UserError("checkpoint", name, f"is of version {version!r} of t5x's format; only 3 is read")
    return {key: leaf for key, leaf in leaves if isinstance(leaf, np.ndarray)}


def _leaves(tree: Mapping[str, Any], path: str) -> list[tuple[str, Any]]:
    """Names with slashes, and what they hold; what says where an array is is no array (of Orbax's, text)."""
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping) and not {"driver", "kvstore"} <= set(value):
            found += _leaves(value, f"{path}{key}/")
        else:
            found.append((f"{path}{key}", value))
    return found
