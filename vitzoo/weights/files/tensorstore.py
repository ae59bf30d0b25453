"""Folders of arrays as TensorStore keeps them (zarr), below one path or all in one OCDBT store.

A checkpoint of t5x is a folder with an index and an array for each parameter. Its own index is the file `checkpoint`
(msgpack), and the arrays lie beside it. Newer ones are written by Orbax: index and arrays are in the folder `state`,
and the index is `checkpoint` without a version, or `_METADATA` (JSON).

A newer checkpoint of big_vision is a folder `checkpoint.bv-STEP` with an array for each name, in which `~` stands for
`/`. Beside it, `checkpoint.bv-LAST` holds the newest STEP.
"""

import contextlib
import functools
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.weights.files.arrays import check_growth
from vitzoo.weights.files.weights import Header, Stored, Tensors

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
    partial = functools.partial
    readers = {key: partial(_array, store, path, name) for key, path in paths.items()}
    return Tensors({key: Stored(readers[key], partial(Header, *header)) for key, header in headers.items()})


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
    return Tensors.of(inside) | read_arrays(arrays, paths, name)


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


SLASH = "~"
LAST = "-LAST"
STEP = re.compile(r"\d{1,20}(-tmp)?")


def is_big_vision(folder: Path) -> bool:
    """Whether a folder is a checkpoint of big_vision, whole or not."""
    patterns = (f"*{SLASH}*/{HEADER}", f"params{SLASH}*/")
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)


def read_big_vision(folder: Path, name: str) -> Tensors:
    """Its arrays, named with slashes; those of an optimizer too.

    Args:
        folder: the checkpoint's.
        name: as it was asked for.

    Raises:
        UserError: a folder has an array's name and not its header.
    """
    paths = sorted(path.name for path in folder.iterdir() if path.is_dir())
    lost = [path for path in paths if not (folder / path / HEADER).is_file()]
    if broken := [path for path in lost if SLASH in path]:
        raise UserError("checkpoint", name, f"lacks {broken[0]}/{HEADER}: it isn't the whole checkpoint")
    return read_arrays(folder, {path.replace(SLASH, "/"): path for path in paths if path not in lost}, name)


def newest(path: Path) -> Path:
    """The folder that is meant by `checkpoint.bv`: of the newest step; any other path is itself.

    Raises:
        UserError: `checkpoint.bv-LAST` can't be read or names no folder that is there.
    """
    pointer = f"{path}{LAST}"
    if not path.name or os.path.lexists(path) or not os.path.isfile(pointer):
        return path
    try:
        step = Path(pointer).read_bytes()[:64].decode(errors="replace").strip()
    except OSError as error:
        raise UserError("checkpoint", str(path), f"{pointer} can't be read: {error.strerror}") from None
    found = path.with_name(f"{path.name}-{step}") if STEP.fullmatch(step) else None
    if found is None or not found.is_dir():
        raise UserError("checkpoint", str(path), f"{pointer} names the step {step!r}, which isn't there")
    return found
