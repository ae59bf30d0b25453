"""Reading one item of a checkpoint (`params`, `ema`, `optimizer`, `loop`) without touching the others."""

import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from vitzoo.checkpoints.growth import growth
from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.manifest import Damaged
from vitzoo.checkpoints.quiet import quiet
from vitzoo.errors import UserError
from vitzoo.nn.paths import flatten


def arrays(folder: Path) -> Any:
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


def arrays_as(folder: Path, abstract: Any) -> Any:
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


def read_params(located: Located, weights: str = "auto", abstract: Any = None) -> tuple[Any, str]:
    """A checkpoint's weights, and nothing else of it.

    Args:
        located: what `locate` found.
        weights: "ema", "raw", or "auto" for the moving average where there is one.
        abstract: a tree of ShapeDtypeStruct with shardings to restore into; None for numpy arrays.

    Returns:
        The nested dict of parameters, and which they are: "ema" or "raw".

    Raises:
        UserError: "ema" is asked of a checkpoint without one, or the item can't be read.
    """
    which = chosen_weights(located, weights)
    folder = located.folder / {"ema": "ema", "raw": "params"}[which]
    try:
        return (arrays(folder) if abstract is None else arrays_as(folder, abstract)), which
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
