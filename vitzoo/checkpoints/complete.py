"""Whether an item of a checkpoint holds every array that was to be saved: Orbax only logs it when parts are missing."""

import collections
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from vitzoo.checkpoints.manifest import Damaged

Shapes = collections.Counter[tuple[int, ...]]
_DESCRIPTION = ".zarray"


def shapes_of(leaves: Iterable[Any]) -> Shapes:
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
