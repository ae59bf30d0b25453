"""A picture of some examples with their labels, for `vitzoo data show`."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from vitzoo.data.contact_sheet import contact_sheet
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import decode
from vitzoo.data.open import open_dataset
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source
from vitzoo.errors import RunError, UserError
from vitzoo.outputs import checked_file, write_whole
from vitzoo.overwriting import Reads, check_is_none_of
from vitzoo.schema import build


def show(
    name: str, output: str | pathlib.Path, *, split: str = "train", count: int = 64, **settings: Any
) -> pathlib.Path:
    """Writes a picture of `count` examples with their labels, taken evenly from the whole split.

    Args:
        output: a .png or .jpg file.
        settings: further fields of `Data` (dir, bad_files, label_column ...).

    Raises:
        UserError: no such data, an image can't be read (under `bad_files=stop`), or the file can't be written to.
    """
    path = checked_file("output", output, (".png", ".jpg"), Reads([name]))
    data = build(Data, {"name": name, **settings}, "data")
    dataset = open_dataset(data)
    for part in [part for part, count in dataset.counts().items() if count]:
        check_is_none_of("output", output, path, dataset.open(part).info.files or ())
    source = dataset.open(split)
    chosen = np.unique(np.linspace(0, len(source) - 1, min(count, len(source))).astype(int))
    pictures = list(_labelled_images(source, chosen, data))
    if not pictures:
        raise RunError(f"none of the {len(chosen)} examples can be read")
    write_whole(path, contact_sheet(pictures).save)
    return path


def _labelled_images(source: Source, indices: np.ndarray, data: Data) -> Iterator[tuple[np.ndarray, str]]:
    classes = source.info.classes or ()
    for index in indices:
        example = source[int(index)]
        label = example["label"]
        numbers = np.flatnonzero(label) if source.info.multi_label else [int(label)]
        names = ["unlabelled"] if source.info.unlabelled else [classes[number] for number in numbers]
        try:
            yield decode(example["image"]), ", ".join(names)
        except BadImage as error:
            if data.bad_files == "stop":
                where = f"{source.where(int(index))} can't be read: {error.reason}"
                raise UserError("data.name", data.name, f"{where}; data.bad_files=skip leaves it out") from error
