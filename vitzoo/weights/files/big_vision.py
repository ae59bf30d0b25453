"""Newer checkpoints of big_vision: a folder `checkpoint.bv-STEP` with a TensorStore array for each name, in which `~`
stands for `/`. Beside it, `checkpoint.bv-LAST` holds the newest STEP.
"""

import os
import re
from pathlib import Path

from vitzoo.errors import UserError
from vitzoo.weights.files.source import Tensors
from vitzoo.weights.files.tensorstore_folder import HEADER, read_arrays

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
