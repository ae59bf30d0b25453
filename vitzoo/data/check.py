"""Counting a dataset and decoding every image of it, for `vitzoo data check`."""

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vitzoo.data import left_out
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import decode
from vitzoo.data.open import open_dataset
from vitzoo.data.progress import progress
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.sources.files import LEFT_OUT
from vitzoo.data.sources.prepared_files import read_through
from vitzoo.data.splits import filled
from vitzoo.schema import build


def check(name: str, *, split: str = "", **settings: Any) -> dict[str, Any]:
    """Decodes every image of every split, or of `split`.

    Args:
        settings: further fields of `Data` (dir, label_column, validation_fraction ...). Whatever `bad_files` is, what
            can't be read is collected, all of it.

    Returns:
        `{"dataset", "classes", "notes", "unreadable", "splits": {split: {"n", "class_counts", "unlabelled", "channels",
        "smallest", "largest"}}}`. `unreadable` lists `FILE (reason)`: files of a folder or CSV aren't among the
        examples of a split, those of other data are. Sizes are [height, width] of the smallest and largest image by
        area.

    Raises:
        UserError: no such data, none that can be read, or prepared data that aren't what was written.
    """
    with read_through():
        return _checked(name, split, settings)


def _checked(name: str, split: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    data = dataclasses.replace(build(Data, {"name": name, **settings}, "data"), bad_files="skip")
    with left_out.collected() as unreadable:
        dataset = open_dataset(data)
    notes = [note for note in getattr(dataset, "notes", ()) if not note.endswith(LEFT_OUT)]
    results: dict[str, Any] = {"dataset": name, "classes": None, "notes": notes, "splits": {}}
    have, empty = filled(dataset.counts()) if not split else ([split], [])
    notes += empty
    for part in have:
        source = dataset.open(part)
        results["classes"] = list(source.info.classes or ()) or None
        results["splits"][part], bad = _check_split(source)
        unreadable += bad
    if not results["splits"]:
        dataset.open("train")  # it is in TFDS's catalogue and not prepared, which this says
    return {**results, "unreadable": unreadable}


def _check_split(source: Source) -> tuple[dict[str, Any], list[str]]:
    with ThreadPoolExecutor() as threads:
        looks = threads.map(lambda index: _look(source, index), range(len(source)))
        found = list(progress(looks, len(source), f"checking {source.info.name} {source.info.split}"))
    shapes = sorted((shape for shape, _ in found if shape), key=lambda shape: shape[0] * shape[1])
    bad = [f"{source.where(index)} ({reason})" for index, (_, reason) in enumerate(found) if reason]
    counted = {
        "n": len(source),
        "class_counts": class_counts(source.info),
        "unlabelled": source.info.unlabelled,
        "channels": source.info.channels,
        "smallest": list(shapes[0]) if shapes else None,
        "largest": list(shapes[-1]) if shapes else None,
    }
    return counted, bad


def class_counts(info: SourceInfo) -> dict[str, int]:
    """Examples by class; none of classes that aren't told."""
    return dict(zip(info.classes or (), info.class_counts or [0] * len(info.classes or ()), strict=True))


def _look(source: Source, index: int) -> tuple[tuple[int, int] | None, str]:
    try:
        image = decode(source[index]["image"])
    except (BadImage, OSError) as error:
        return None, getattr(error, "reason", str(error))
    return (image.shape[0], image.shape[1]), ""
