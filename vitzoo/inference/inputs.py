"""What is to be predicted: files, folders, images in memory, each with a name for its row."""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vitzoo.data.file_tree import files_below
from vitzoo.data.sources.folder import is_image
from vitzoo.errors import UserError
from vitzoo.paths import named_path, readable_path


@dataclasses.dataclass(frozen=True)
class Input:
    """One image: the name its row gets, and a path, bytes, a PIL image or an array; or why there is none."""

    name: str
    image: Any = None
    error: str | None = None


def gather(inputs: Any) -> list[Input]:
    """Every image of the inputs, in order.

    Args:
        inputs: a path, bytes, a PIL image or an array `[height, width]` or `[height, width, channels]`; a folder, for
            the images in it at any depth, by sorted relative path; an array `[n, height, width, channels]`; or several
            of these. Images in memory are named `image 0`, `image 1` ... by their place in the result. A path that
            doesn't exist, or a folder without images, is named with its `error`.

    Raises:
        UserError: no path is of any use, or there is nothing at all.
    """
    found: list[Input] = []
    refusals: list[UserError] = []
    for one in listed(inputs):
        if not isinstance(one, str | os.PathLike):
            _check_picture(one)
            found += [Input(f"image {len(found) + index}", image) for index, image in enumerate(stacked(one))]
            continue
        try:
            found += [Input(str(path), path) for path in files_at(named_path("inputs", one))]
        except UserError as refusal:
            refusals.append(refusal)
            found.append(Input(str(one), error=refusal.message))
    if not found:
        raise UserError("inputs", None, "name an image file or a folder")
    if len(refusals) == len(found):
        raise refusals[0]
    return found


def listed(inputs: Any) -> Iterable[Any]:
    """The inputs as several."""
    single = isinstance(inputs, str | bytes | os.PathLike | Image.Image) or hasattr(inputs, "__array__")
    if single:
        return [inputs]
    if isinstance(inputs, Iterable) and not isinstance(inputs, Mapping):
        return list(inputs)
    shown = "None" if inputs is None else inputs
    raise UserError(
        "inputs", shown, f"is of the type {type(inputs).__name__}; must be files, folders, pictures or arrays"
    )


def _check_picture(one: Any) -> None:
    """Refuses what is no picture: a number would be taken for an open file of the process."""
    if isinstance(one, bytes | Image.Image) or hasattr(one, "__array__"):
        return
    shown = "None" if one is None else one
    raise UserError(
        "inputs", shown, f"is of the type {type(one).__name__}; must be a file, a folder, a picture or an array"
    )


def stacked(image: Any) -> Iterable[Any]:
    """The images of an array `[n, height, width, channels]`; anything else is one image."""
    image = np.asarray(image) if hasattr(image, "__array__") else image
    return image if isinstance(image, np.ndarray) and image.ndim == 4 else [image]


def files_at(path: Path) -> list[Path]:
    """The file itself, or a folder's images by sorted relative path. Hidden files and other kinds are left out."""
    if path.is_dir():
        found = files_below([path], path, [])[0] or []
        images = [file for file in found if is_image(file)]
        if not images:
            raise UserError("inputs", path, "no images in this folder (.jpg, .png, .webp ...)")
        return sorted(images, key=lambda file: file.relative_to(path).parts)
    if not path.exists():
        raise UserError("inputs", path, "no such file or folder")
    return [readable_path("inputs", path)]
