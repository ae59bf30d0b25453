"""Checkpoints of t5x: a folder with a file `checkpoint` (msgpack) and a TensorStore array for each parameter, in
folders of their own or in one OCDBT store."""

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.files.npz import ALWAYS_FINE, LARGEST_RATIO
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
    packed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    most = max(ALWAYS_FINE, LARGEST_RATIO * packed)
    readers = {
        path.removeprefix(TARGET).replace(".", "/"): functools.partial(_array, store, path, name, most)
        for path in paths
    }
    return Tensors({**{key: functools.partial(inside.__getitem__, key) for key in inside}, **readers})


def _listed(store: Mapping[str, Any], name: str) -> list[str]:
    """Arrays below `target.` in an OCDBT store."""
    import tensorstore

    try:
        keys = tensorstore.KvStore.open(dict(store)).result().list().result()
    except Exception as error:  # the library raises many kinds
        raise Refused("checkpoint", name, f"its store can't be read ({_short(error)})") from None
    names = (key.decode(errors="replace") for key in keys)
    return sorted(key.removesuffix("/.zarray") for key in names if key.startswith(TARGET) and key.endswith("/.zarray"))


def _array(store: Mapping[str, Any], path: str, name: str, most: int) -> np.ndarray:
    """One array, of `most` bytes at most. A chunk that isn't there is damage, unless the array says what it holds."""
    import tensorstore

    spec = {"driver": "zarr", "kvstore": {**store, "path": f"{store.get('path', '')}{path}/"}}
    try:
        opened = tensorstore.open(spec, open=True, read=True).result()
        size = math.prod(opened.shape) * opened.dtype.numpy_dtype.itemsize
        if size > most:
            raise Refused("checkpoint", name, f"{path} would grow to {size:,} bytes: no weights do")
        if opened.fill_value is None:
            opened = tensorstore.open({**spec, "fill_missing_data_reads": False}, open=True, read=True).result()
        return opened.read().result()
    except Refused:
        raise
    except Exception as error:  # the library raises many kinds
        raise Refused("checkpoint", name, f"can't be read within {path} ({_short(error)})") from None


def _inside(index: Path, name: str) -> dict[str, np.ndarray]:
    """Parameters that the msgpack file holds itself (those that weren't spread over devices)."""
    import flax.serialization

    try:
        content = flax.serialization.msgpack_restore(index.read_bytes())
        version, target = content["version"], content["optimizer"]["target"]
        leaves = _leaves(target, "")
    except Exception as error:  # the library raises many kinds for a damaged file
        raise Refused("checkpoint", name, f"{index.name} is no index of t5x ({_short(error)})") from None
    if version != 3:
        raise Refused("checkpoint", name, f"is of version {version!r} of t5x's format; only 3 is read")
    return {key: leaf for key, leaf in leaves if isinstance(leaf, np.ndarray)}


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
