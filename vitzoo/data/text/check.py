"""Counting a text dataset and reading every example of it, for `vitzoo data check`; a few of them, for `show`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo import registry
from vitzoo.data import left_out
from vitzoo.data.progress import progress
from vitzoo.data.settings import Data
from vitzoo.data.sources.prepared_files import read_through
from vitzoo.data.splits import filled
from vitzoo.data.text.settings import Text
from vitzoo.data.text.sources.base import NOT_TEXT, TextSource, strings
from vitzoo.data.text.sources.open import makes_text, open_text_dataset
from vitzoo.schema import build

KINDS = ("text:", "jsonl:")


def is_text(name: str) -> bool:
    """Whether a dataset is of text: its name says so, or what the user's own makes."""
    return name.startswith(KINDS) or name.partition("/")[0] in registry.PARTS["text_dataset"] or makes_text(name)


def check_text(name: str, *, split: str = "", text: Mapping[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """Reads every example of every split, or of `split`.

    Args:
        text: fields of `Text` that say what is read (document, label_field, regression ...).
        settings: further fields of `Data`. Whatever `bad_files` is, what can't be read is collected, all of it.

    Returns:
        `{"dataset", "classes", "fields", "notes", "unreadable", "splits": {split: {"n", "class_counts", "unlabelled",
        "bytes", "shortest", "median", "longest", "empty"}}}`: bytes of UTF-8 of all text; characters of the shortest,
        the median and the longest example; and how many have no text at all.

    Raises:
        UserError: no such data, none that can be read, or prepared data that aren't what was written.
    """
    with read_through():
        return _checked(name, split, text or {}, settings)


def _checked(name: str, split: str, text: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    data = dataclasses.replace(build(Data, {"name": name, **settings}, "data"), bad_files="skip")
    with left_out.collected() as unreadable:
        dataset = open_text_dataset(data, build(Text, text, "text"))
        notes = list(getattr(dataset, "notes", ()))
    results: dict[str, Any] = {"dataset": name, "classes": None, "fields": [], "notes": notes, "splits": {}}
    have, empty = filled(dataset.counts()) if not split else ([split], [])
    notes += empty
    for part in have:
        source = dataset.open(part)
        results["classes"] = list(source.info.classes or ()) or None
        results["fields"] = list(source.fields)
        results["splits"][part] = _check_split(source)
    return {**results, "unreadable": unreadable}


def some(name: str, count: int, *, split: str = "train", text: Mapping[str, Any] | None = None, **settings: Any):
    """Examples taken evenly from a split: where each comes from, and its fields with labels by name.

    Raises:
        UserError: no such data, or an example can't be read.
    """
    source = open_text_dataset(build(Data, {"name": name, **settings}, "data"), build(Text, text or {}, "text")).open(
        split
    )
    for index in np.unique(np.linspace(0, len(source) - 1, min(count, len(source))).astype(int)):
        yield source.where(int(index)), _named(source, source[int(index)])


def _named(source: TextSource, example: dict[str, Any]) -> dict[str, Any]:
    classes = source.info.classes
    if classes is None:
        return example
    named = dict(example)
    for field in ("label", "tags"):
        if field in named and source.info.unlabelled:
            named[field] = "unlabelled"
        elif field in named:
            chosen = [classes[number] for number in _class_numbers({field: named[field]})]
            named[field] = chosen[0] if field == "label" and np.ndim(named[field]) == 0 else chosen
    return named


def _class_numbers(example: dict[str, Any]) -> list[int]:
    """Of its words, or of the text: one, or several as 0 and 1 for each class."""
    if "tags" in example:
        return [int(tag) for tag in example["tags"]]
    label = np.asarray(example["label"])
    return np.flatnonzero(label).tolist() if label.ndim else [int(label)]


def _check_split(source: TextSource) -> dict[str, Any]:
    fields = [field for field in source.fields if field not in NOT_TEXT]
    lengths, size = np.zeros(len(source), np.int64), 0
    counts = np.zeros(len(source.info.classes or ()), np.int64)
    for index in progress(range(len(source)), len(source), f"checking {source.info.name} {source.info.split}"):
        example = source[index]
        said = [part for field in fields for part in strings(example[field])]
        lengths[index] = sum(map(len, said))
        size += sum(len(part.encode("utf-8", "surrogatepass")) for part in said)
        if len(counts) and not source.info.unlabelled:
            np.add.at(counts, _class_numbers(example), 1)
    return {
        "n": len(source),
        "class_counts": dict(zip(source.info.classes or (), counts.tolist(), strict=True)),
        "unlabelled": source.info.unlabelled,
        "bytes": size,
        "shortest": int(lengths.min()) if len(lengths) else 0,
        "median": float(np.median(lengths)) if len(lengths) else 0.0,
        "longest": int(lengths.max(initial=0)),
        "empty": int((lengths == 0).sum()),
    }
