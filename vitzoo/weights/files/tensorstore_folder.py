"""Arrays as TensorStore keeps them (zarr): below one path, in folders of their own or all in one OCDBT store."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.files.npz import ALWAYS_FINE, LARGEST_RATIO

OCDBT = "manifest.ocdbt"
HEADER = ".zarray"
"""Of an array: shape, type and chunks."""


def array_names(folder: Path, prefix: str, name: str) -> list[str]:
    """The arrays of a folder or of its OCDBT store, by the beginning of their names.

    Args:
        folder: of all arrays.
        prefix: of their names.
        name: as the weights were asked for.

    Raises:
        Refused: the store can't be read.
    """
    if not (folder / OCDBT).is_file():
        return sorted(path.parent.name for path in folder.glob(f"{prefix}*/{HEADER}"))
    import tensorstore

    try:
        keys = tensorstore.KvStore.open(_store(folder)).result().list().result()
    except Exception as error:  # the library raises many kinds
        raise Refused("checkpoint", name, f"its store can't be read ({short(error)})") from None
    end = f"/{HEADER}"
    names = (key.decode(errors="replace") for key in keys)
    return sorted(key.removesuffix(end) for key in names if key.startswith(prefix) and key.endswith(end))


def array_readers(folder: Path, paths: Iterable[str], name: str) -> dict[str, Callable[[], np.ndarray]]:
    """A function for each array that reads it.

    Args:
        folder: of all arrays.
        paths: of the arrays below it.
        name: as the weights were asked for.

    Raises:
        Refused: only by the functions; an array isn't there, is damaged, or would grow without measure.
    """
    packed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    most = max(ALWAYS_FINE, LARGEST_RATIO * packed)
    return {path: functools.partial(_array, _store(folder), path, name, most) for path in paths}


def short(error: Exception) -> str:
    """The beginning of a library's message."""
    return str(error).partition("\n")[0][:200] or type(error).__name__


def _store(folder: Path) -> dict[str, Any]:
    store: dict[str, Any] = {"driver": "file", "path": f"{folder.absolute()}/"}
    return {"driver": "ocdbt", "base": store} if (folder / OCDBT).is_file() else store


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
        raise Refused("checkpoint", name, f"can't be read within {path} ({short(error)})") from None
