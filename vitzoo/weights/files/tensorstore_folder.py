"""Arrays as TensorStore keeps them (zarr): below one path, in folders of their own or all in one OCDBT store."""

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.weights.files.npz import check_growth
from vitzoo.weights.files.source import Header, Tensors

OCDBT = "manifest.ocdbt"
HEADER = ".zarray"
"""Of an array: shape, type and chunks."""
SMALLEST_CHUNK = 2**20
"""Numbers that a chunk may have however small its array is."""


def array_names(folder: Path, prefix: str, name: str) -> list[str]:
    """The arrays of a folder or of its OCDBT store, by the beginning of their names.

    Args:
        folder: of all arrays.
        prefix: of their names.
        name: as the weights were asked for.

    Raises:
        UserError: the store can't be read.
    """
    if not (folder / OCDBT).is_file():
        return sorted(path.parent.name for path in folder.glob(f"{prefix}*/{HEADER}"))
    import tensorstore

    try:
        keys = tensorstore.KvStore.open(_store(folder)).result().list().result()
    except Exception as error:  # the library raises many kinds
        raise UserError("checkpoint", name, f"its store can't be read ({short(error)})") from None
    end = f"/{HEADER}"
    names = (key.decode(errors="replace") for key in keys)
    return sorted(key.removesuffix(end) for key in names if key.startswith(prefix) and key.endswith(end))


def read_arrays(folder: Path, paths: Mapping[str, str], name: str) -> Tensors:
    """The arrays, each read when it is looked at.

    Args:
        folder: of all arrays.
        paths: of the arrays below it, by the names that they shall have.
        name: as the weights were asked for.

    Raises:
        UserError: an array's header can't be read, or the arrays would grow without measure; and, when an array is
            looked at, it is damaged.
    """
    store = _store(folder)
    headers = {key: _header(store, path, name) for key, path in paths.items()}
    sizes = {paths[key]: math.prod(header.shape) * header.dtype.itemsize for key, header in headers.items()}
    check_growth(sizes, sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), name)
    readers = {key: functools.partial(_array, store, path, name) for key, path in paths.items()}
    return Tensors(readers, {key: functools.partial(Header, *header) for key, header in headers.items()})


def short(error: Exception) -> str:
    """The beginning of a library's message."""
    return str(error).partition("\n")[0][:200] or type(error).__name__


def _store(folder: Path) -> dict[str, Any]:
    store: dict[str, Any] = {"driver": "file", "path": f"{folder.absolute()}/"}
    return {"driver": "ocdbt", "base": store} if (folder / OCDBT).is_file() else store


def _opened(store: Mapping[str, Any], path: str, **how: Any) -> Any:
    import tensorstore

    spec = {"driver": "zarr", "kvstore": {**store, "path": f"{store.get('path', '')}{path}/"}, **how}
    return tensorstore.open(spec, open=True, read=True).result()


def _header(store: Mapping[str, Any], path: str, name: str) -> Header:
    """Shape and type of an array, whose chunks may be no larger than it is, but for being rounded up to whole ones."""
    with _refusals(path, name):
        opened = _opened(store, path)
        shape, chunk = tuple(opened.shape), tuple(opened.chunk_layout.read_chunk.shape or ())
        if math.prod(chunk) > max(SMALLEST_CHUNK, 2 ** len(shape) * math.prod(shape)):
            raise ValueError(f"its chunks of {chunk} are larger than itself, {shape}")
    return Header(shape, opened.dtype.numpy_dtype)


def _array(store: Mapping[str, Any], path: str, name: str) -> np.ndarray:
    """One array. A chunk that isn't there is damage, unless the array says what it holds."""
    with _refusals(path, name):
        opened = _opened(store, path)
        if opened.fill_value is None:
            opened = _opened(store, path, fill_missing_data_reads=False)
        numbers = opened.read().result()
    return np.asarray(numbers)


@contextlib.contextmanager
def _refusals(path: str, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the library raises many kinds
        raise UserError("checkpoint", name, f"can't be read within {path} ({short(error)})") from None
