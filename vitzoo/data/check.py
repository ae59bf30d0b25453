"""Counting a dataset and reading every example of it, for `vitzoo data check`."""

import dataclasses
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from vitzoo.data import left_out
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import decode
from vitzoo.data.open import open_dataset, open_split
from vitzoo.data.progress import progress
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import NOT_TEXT, Source, SourceInfo, holds
from vitzoo.data.sources.image_table import LEFT_OUT
from vitzoo.data.sources.prepared_files import read_through
from vitzoo.data.splits import filled
from vitzoo.data.text.examples import strings
from vitzoo.schema import build
from vitzoo.strict_json import JSON


def check(name: str, *, split: str | None = None, **settings: JSON) -> dict[str, Any]:
    """Reads every example of every split, or of `split`, and decodes its image if it has one.

    Args:
        settings: further fields of `Data` (dir, label_field, validation_fraction ...). Whatever `bad_files` is, what
            can't be read is collected, all of it.

    Returns:
        `{"dataset", "classes", "fields", "notes", "unreadable", "splits": {split: {"n", "class_counts", "unlabelled"
        ...}}}`, and of each split of images or arrays "channels", "smallest", "largest"; of texts "bytes", "shortest",
        "median", "longest", "empty". `unreadable` lists `FILE (reason)`: files and records that a list names aren't
        among the examples of a split, those of other data are. Sizes are [height, width] of the smallest and largest
        image, or the shapes of arrays. Bytes are of UTF-8, of all text; shortest, median and longest are characters of
        an example, and empty are those that have no text at all.

    Raises:
        UserError: no such data, none that can be read, or prepared data that aren't what was written.
    """
    with read_through():
        return _checked(name, split, settings)


def _checked(name: str, split: str | None, settings: Mapping[str, JSON]) -> dict[str, Any]:
    data = dataclasses.replace(build(Data, {"name": name, **settings}, "data"), bad_files="skip")
    with left_out.collected() as unreadable:
        dataset = open_dataset(data)
    notes = [note for note in getattr(dataset, "notes", ()) if not note.endswith(LEFT_OUT)]
    results: dict[str, Any] = {"dataset": name, "classes": None, "fields": [], "notes": notes, "splits": {}}
    have, empty = filled(dataset.counts()) if split is None else ([split], [])
    notes += empty
    for part in have:
        source = open_split(data, dataset, part)
        results["classes"] = list(source.info.classes or ()) or None
        results["fields"] = list(source.fields)
        of_text = holds(source.fields, "text") and not holds(source.fields, "image")
        counted, bad = (_check_texts(source), []) if of_text else _check_arrays(source)
        results["splits"][part] = {"n": len(source), "unlabelled": source.info.unlabelled, **counted}
        unreadable += bad
    if not results["splits"]:
        dataset.open("train")  # it is in TFDS's catalogue and not prepared, which this says
    return {**results, "unreadable": unreadable}


def _check_arrays(source: Source) -> tuple[dict[str, Any], list[str]]:
    """Images, or arrays of a kind of the user's own."""
    with ThreadPoolExecutor() as threads:
        looks = threads.map(lambda index: _look(source, index), range(len(source)))
        found = list(progress(looks, len(source), f"checking {source.info.name} {source.info.split}"))
    shapes = sorted((shape for shape, _ in found if shape), key=math.prod)
    bad = [f"{source.where(index)} ({reason})" for index, (_, reason) in enumerate(found) if reason]
    counted = {
        "class_counts": class_counts(source.info),
        "channels": source.info.channels,
        "smallest": list(shapes[0]) if shapes else None,
        "largest": list(shapes[-1]) if shapes else None,
    }
    return counted, bad


def class_counts(info: SourceInfo) -> dict[str, int]:
    """Examples by class; none of classes that aren't told."""
    return dict(zip(info.classes or (), info.class_counts or [0] * len(info.classes or ()), strict=True))


def _look(source: Source, index: int) -> tuple[tuple[int, ...] | None, str]:
    """The shape of an example's image, height and width, or else of its first array; or why it can't be read."""
    try:
        example = source[index]
        if "image" in example:
            return decode(example["image"]).shape[:2], ""
        return next((value.shape for value in example.values() if isinstance(value, np.ndarray)), None), ""
    except (BadImage, OSError) as error:
        return None, getattr(error, "reason", str(error))


def _check_texts(source: Source) -> dict[str, Any]:
    fields = [field for field in source.fields if field not in NOT_TEXT]
    lengths, size = np.zeros(len(source), np.int64), 0
    counts = np.zeros(len(source.info.classes or ()), np.int64)
    for index in progress(range(len(source)), len(source), f"checking {source.info.name} {source.info.split}"):
        example = source[index]
        said = [part for field in fields for part in strings(example[field])]
        lengths[index] = sum(map(len, said))
        size += sum(len(part.encode("utf-8", "surrogatepass")) for part in said)
        if len(counts) and not source.info.unlabelled:
            np.add.at(counts, class_numbers(example), 1)
    return {
        "class_counts": dict(zip(source.info.classes or (), counts.tolist(), strict=True)),
        "bytes": size,
        "shortest": int(lengths.min()) if len(lengths) else 0,
        "median": float(np.median(lengths)) if len(lengths) else 0.0,
        "longest": int(lengths.max(initial=0)),
        "empty": int((lengths == 0).sum()),
    }


def class_numbers(example: Mapping[str, Any]) -> list[int]:
    """The classes of an example's words, or of itself: one, or several as 0 and 1 for each class."""
    if "tags" in example:
        return [int(tag) for tag in example["tags"]]
    label = np.asarray(example["label"])
    return np.flatnonzero(label).tolist() if label.ndim else [int(label)]
