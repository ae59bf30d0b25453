"""What a user gives to be predicted, outside of any dataset: files, folders and arrays in memory."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeGuard

import jax
import numpy as np
from PIL import Image

from vitzoo.data.file_tree import files_below
from vitzoo.data.image_files import is_image
from vitzoo.errors import UserError
from vitzoo.paths import named_path, readable_path
from vitzoo.strict_json import JSON

Value = str | os.PathLike[str] | bytes | Image.Image | np.ndarray | jax.Array | Mapping[str, JSON]
"""What may be given as one: a file, a folder, a picture, an array; a text, or a record of its fields."""
Values = Value | Iterable[Value]


@dataclasses.dataclass(frozen=True)
class Input:
    """One thing to predict.

    Attributes:
        fields: what its row begins with: `file`, or the fields of a text.
        value: what the processor makes the model's arrays of: a path, bytes, a PIL image, an array; of text its fields.
        error: why there is no value.
    """

    fields: dict[str, Any]
    value: Any = None
    error: str | None = None

    @property
    def name(self) -> str:
        """It in one line, for the terminal."""
        return self.fields["file"]

    @property
    def content(self) -> str:
        """What tells it from the others: the name of its file, or the whole text."""
        return self.name


@dataclasses.dataclass(frozen=True)
class ValueKind:
    """A kind of value that lies in files or in memory.

    Attributes:
        noun: what one is called: `image`.
        endings: of its files, in a few words.
        wanted: what may be given in memory, in a few words: `a picture or an array`.
        dimensions: of an array of several.
        is_file: whether a file of a folder is of the kind, by its name.
        is_value: whether something in memory can be of the kind.
    """

    noun: str
    endings: str
    wanted: str
    dimensions: int
    is_file: Callable[[PurePath], bool]
    is_value: Callable[[Value], bool]


def is_array(value: Values) -> TypeGuard[np.ndarray | jax.Array]:
    """Whether it is an array, NumPy's, JAX's or alike."""
    return hasattr(value, "__array__")


IMAGES = ValueKind(
    noun="image",
    endings=".jpg, .png, .webp ...",
    wanted="a picture or an array",
    dimensions=4,
    is_file=is_image,
    # a number would be taken for an open file of the process
    is_value=lambda value: isinstance(value, bytes | Image.Image) or is_array(value),
)


def arrays(noun: str, dimensions: int) -> ValueKind:
    """A kind whose values are arrays, in memory or in `.npy` files.

    Args:
        noun: what one is called.
        dimensions: of an array of several.
    """
    return ValueKind(noun, ".npy", "an array", dimensions, lambda path: path.suffix == ".npy", is_array)


def gather(inputs: Values, kind: ValueKind = IMAGES) -> list[Input]:
    """Every value of the inputs, in order.

    Args:
        inputs: a path, bytes, a PIL image or an array `[height, width]` or `[height, width, channels]`; a folder, for
            the files of the kind in it at any depth, by sorted relative path; an array with one dimension more, `[n,
            height, width, channels]`; or several of these. Values in memory are named `image 0`, `image 1` ... by their
            place in the result. A path that doesn't exist, or a folder without such files, is named with its `error`.
        kind: that the values are of; of other kinds than images, paths and arrays are taken.

    Raises:
        UserError: no path is of any use, or there is nothing at all.
    """
    found: list[Input] = []
    refusals: list[UserError] = []
    for one in several(inputs):
        if not isinstance(one, str | os.PathLike):
            if not kind.is_value(one):
                raise _refused(one, f"a file, a folder, {kind.wanted}")
            values = stacked(one, kind.dimensions)
            found += [Input({"file": f"{kind.noun} {len(found) + i}"}, value) for i, value in enumerate(values)]
            continue
        try:
            found += [Input({"file": str(path)}, path) for path in files_at(named_path("inputs", one), kind)]
        except UserError as refusal:
            refusals.append(refusal)
            found.append(Input({"file": str(one)}, error=refusal.message))
    if not found:
        raise UserError("inputs", None, f"name {'an' if kind.noun[0] in 'aeiou' else 'a'} {kind.noun} file or a folder")
    if len(refusals) == len(found):
        raise refusals[0]
    return found


def several(inputs: Values) -> list[Value]:
    """What is given as several, whatever it is: files, folders, pictures, arrays, texts or records.

    Raises:
        UserError: it is neither one of these nor a list of them.
    """
    if isinstance(inputs, str | bytes | os.PathLike | Mapping | Image.Image | np.ndarray | jax.Array) or is_array(
        inputs
    ):
        return [inputs]
    if isinstance(inputs, Iterable):
        return list(inputs)
    raise _refused(inputs, "files, folders, pictures, arrays or texts")


def _refused(one: Value, wanted: str) -> UserError:
    problem = f"is of the type {type(one).__name__}; must be {wanted}"
    return UserError("inputs", "None" if one is None else one, problem)


def stacked(value: Value, dimensions: int = IMAGES.dimensions) -> Iterable[Value]:
    """The values of an array of several, which has so many dimensions; anything else is one value."""
    value = np.asarray(value) if is_array(value) and not isinstance(value, Image.Image) else value
    return value if isinstance(value, np.ndarray) and value.ndim == dimensions else [value]


def files_at(path: Path, kind: ValueKind = IMAGES) -> list[Path]:
    """The file itself, or a folder's of the kind by sorted relative path. Hidden ones and others are left out."""
    if path.is_dir():
        files = [file for file in files_below([path], path, [])[0] or [] if kind.is_file(file)]
        if not files:
            raise UserError("inputs", path, f"no {kind.noun}s in this folder ({kind.endings})")
        return sorted(files, key=lambda file: file.relative_to(path).parts)
    if not path.exists():
        raise UserError("inputs", path, "no such file or folder")
    return [readable_path("inputs", path)]
