"""Checkpoints of t5x: a folder with a file `checkpoint` (msgpack) and a TensorStore array for each parameter, in
folders of their own or in one OCDBT store."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.files.source import Tensors

INDEX, OCDBT = "checkpoint", "manifest.ocdbt"
TARGET = "target."
"""Before the names of the model's parameters; the optimizer's are below `state.`."""


def is_t5x(folder: Path) -> bool:
    """Whether a folder is a checkpoint of t5x."""
    return (folder / INDEX).is_file() and (
        (folder / OCDBT).is_file() or next(folder.glob(f"{TARGET}*/.zarray"), None) is not None
    )


def read_t5x(folder: Path, name: str) -> Tensors:
    """The model's parameters, named with slashes, without `target/`.

    Args:
        folder: the checkpoint's.
        name: as it was asked for.

    Raises:
        Refused: it is damaged, or older than version 3 (of 2021).
    """
    store: dict[str, Any] = {"driver": "file", "path": f"{folder.absolute()}/"}
    if (folder / OCDBT).is_file():
        store = {"driver": "ocdbt", "base": store}
        paths = _listed(store, name)
    else:
        paths = sorted(path.parent.name for path in folder.glob(f"{TARGET}*/.zarray"))
    inside = _inside(folder / INDEX, name)
    readers = {
        path.removeprefix(TARGET).replace(".", "/"): functools.partial(_array, store, path, name) for path in paths
    }
    return Tensors({**{key: functools.partial(inside.__getitem__, key) for key in inside}, **readers})


def _listed(store: Mapping[str, Any], name: str) -> list[str]:
    """Arrays below `target.` in an OCDBT store."""
    import tensorstore

    try:
        keys = tensorstore.KvStore.open(dict(store)).result().list().result()
    except ValueError as error:
        raise Refused("checkpoint", name, f"its store can't be read ({_short(error)})") from None
    metadata = [key.decode() for key in keys if key.startswith(TARGET.encode()) and key.endswith(b"/.zarray")]
    return sorted(key.removesuffix("/.zarray") for key in metadata)


def _array(store: Mapping[str, Any], path: str, name: str) -> np.ndarray:
    import tensorstore

    below = {**store, "path": f"{store.get('path', '')}{path}/"}
    try:
        return tensorstore.open({"driver": "zarr", "kvstore": below}, open=True, read=True).result().read().result()
    except ValueError as error:
        raise Refused("checkpoint", name, f"can't be read within {path} ({_short(error)})") from None


def _inside(index: Path, name: str) -> dict[str, np.ndarray]:
    """Parameters that the msgpack file holds itself (those that weren't spread over devices)."""
    import flax.serialization

    try:
        content = flax.serialization.msgpack_restore(index.read_bytes())
        version, target = content["version"], content["optimizer"]["target"]
    except Exception as error:  # the library raises many kinds for a damaged file
        raise Refused("checkpoint", name, f"{index.name} is no index of t5x ({_short(error)})") from None
    if version != 3:
        raise Refused("checkpoint", name, f"is of version {version} of t5x's format; only 3 is read")
    return {key: leaf for key, leaf in _leaves(target, "") if isinstance(leaf, np.ndarray)}


def _leaves(tree: Mapping[str, Any], path: str) -> list[tuple[str, Any]]:
    """Names with slashes, and what they hold; what says where an array is has the keys `driver` and `kvstore`."""
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping) and not {"driver", "kvstore"} <= set(value):
            found += _leaves(value, f"{path}{key}/")
        else:
            found.append((f"{path}{key}", value))
    return found


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0][:200] or type(error).__name__
