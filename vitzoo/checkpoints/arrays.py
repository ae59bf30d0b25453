"""Reading one item of a checkpoint (`params`, `ema`, `optimizer`) without touching the others, if it is whole."""

import collections
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts

from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.manifest import Damaged
from vitzoo.checkpoints.orbax import quiet
from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.nn.paths import flatten

LARGEST_RATIO = 16
"""Of numbers to bytes on disk: weights hardly shrink."""
ALWAYS_FINE = 2**30
"""Bytes of numbers that are unpacked whatever they take on disk."""


def growth(sizes: Mapping[str, int], packed: int) -> str:
    """What is wrong with arrays whose `sizes` in bytes are so much more than the `packed` ones on disk as no weights'
    are; empty where nothing is.
    """
    if (size := sum(sizes.values())) <= max(ALWAYS_FINE, LARGEST_RATIO * packed):
        return ""
    largest = max(sizes, key=sizes.__getitem__)
    return f"would grow from {packed:,} to {size:,} bytes, most of them {largest}: no weights do"


Shapes = collections.Counter[tuple[int, ...]]
_DESCRIPTION = ".zarray"


def shapes_of(leaves: Iterable[np.ndarray | jax.Array]) -> Shapes:
    """How many arrays there are of each shape."""
    return collections.Counter(np.shape(leaf) for leaf in leaves)


def check_complete(folder: Path, wanted: Shapes) -> None:
    """Lists what a restore would read of one item.

    Args:
        folder: the item's, `params`.
        wanted: the shapes that were to be saved.

    Raises:
        Damaged: an array, or a part of one, isn't there.
    """
    if not wanted:
        return
    if not (folder / "_METADATA").is_file():
        raise Damaged(folder, "has no description of its arrays")
    found = _found(folder)
    if missing := wanted - found:
        shape = next(iter(missing))
        raise Damaged(folder, f"{missing.total():,} of {wanted.total():,} arrays are missing, one of shape {shape}")


def _found(folder: Path) -> Shapes:
    """The shapes of the arrays of which every chunk is there."""
    base = {"driver": "file", "path": f"{folder.absolute()}/"}
    try:
        store = ts.KvStore.open({"driver": "ocdbt", "base": base}).result()
        keys = [key.decode() for key in store.list().result()]
        names = [key.removesuffix(_DESCRIPTION) for key in keys if key.endswith(_DESCRIPTION)]
        descriptions = {name: json.loads(store[name + _DESCRIPTION]) for name in names}
    except (ValueError, KeyError, OSError) as error:
        raise Damaged(folder, f"can't be listed ({str(error).splitlines()[0][:200]})") from None
    chunks = collections.Counter(key.rpartition("/")[0] + "/" for key in keys if not key.endswith(_DESCRIPTION))
    return collections.Counter(
        tuple(array["shape"])
        for name, array in descriptions.items()
        if chunks[name] == math.prod(map(_parts, array["shape"], array["chunks"]))
    )


def _parts(size: int, chunk: int) -> int:
    return -(-size // chunk)


def read_arrays(folder: Path) -> state.HostParams:
    """An item saved as a tree of arrays, read as nested dicts of numpy arrays [as saved].

    Raises:
        Damaged: Orbax can't read it, or its arrays are many times larger than its files, as no weights are.
    """
    quiet()
    folder = folder.absolute()  # Orbax finds nothing at a relative path
    reader = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    try:
        tree = reader.metadata(folder).item_metadata.tree
        if reason := growth(_sizes(tree), sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())):
            raise Damaged(folder, reason)
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
        return reader.restore(folder, args=ocp.args.PyTreeRestore(item=tree, restore_args=as_numpy))
    except (ValueError, KeyError, OSError, AttributeError) as error:
        raise Damaged(folder, f"can't be read ({_first_line(error)})") from error
    finally:
        reader.close()


def _sizes(tree: Any) -> dict[str, int]:
    """Bytes of each array that an item's description tells of."""
    return {path: math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for path, leaf in flatten(tree).items()}


def restore_arrays(folder: Path, abstract: state.Shapes) -> state.Params:
    """An item restored into `abstract`: a tree of ShapeDtypeStruct with shardings, which may be of another mesh.

    Raises:
        Damaged: a leaf is missing, left over or of another shape.
    """
    quiet()
    reader = ocp.Checkpointer(ocp.StandardCheckpointHandler())
    try:
        return reader.restore(folder.absolute(), args=ocp.args.StandardRestore(abstract))
    except (ValueError, KeyError, OSError) as error:
        raise Damaged(folder, f"does not fit the state asked for ({_first_line(error)})") from error
    finally:
        reader.close()


def read_params(located: Located, weights: str = "auto") -> tuple[state.HostParams, str]:
    """A checkpoint's weights, and nothing else of it.

    Args:
        located: what `locate` found.
        weights: "ema", "raw", or "auto" for the moving average where there is one.

    Returns:
        The nested dict of parameters, and which they are: "ema" or "raw".

    Raises:
        UserError: "ema" is asked of a checkpoint without one, or the item can't be read.
    """
    which = chosen_weights(located, weights)
    folder = located.folder / {"ema": "ema", "raw": "params"}[which]
    try:
        return read_arrays(folder), which
    except Damaged as error:
        raise UserError("checkpoint", str(located.folder), str(error)) from error


def chosen_weights(located: Located, weights: str) -> str:
    """Which weights of a checkpoint are read, "ema" or "raw"; arguments as of `read_params`.

    Raises:
        UserError: "ema" is asked of a checkpoint without one.
    """
    has_ema = (located.folder / "ema").is_dir()
    if weights not in ("auto", "ema", "raw"):
        raise UserError("weights", weights, "is none of auto, ema, raw")
    if weights == "ema" and not has_ema:
        raise UserError("weights", "ema", f"{located.folder} was trained without a moving average; use raw or auto")
    return "ema" if has_ema and weights != "raw" else "raw"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
