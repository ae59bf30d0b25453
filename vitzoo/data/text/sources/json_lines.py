"""`jsonl:FILE|FOLDER`: one JSON object a line."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitzoo import spelling
from vitzoo.data.duplicates import differing, equal_notes, numbered, torn_note
from vitzoo.data.file_tree import is_visible
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table, kinds_of
from vitzoo.data.sources.files import sorted_classes, standard_split
from vitzoo.data.text.sources.base import carved
from vitzoo.data.text.sources.fields import converter
from vitzoo.data.text.sources.json_records import Records, inputs_of
from vitzoo.data.text.sources.labels import class_name, number
from vitzoo.data.text.sources.mapped import MappedFiles
from vitzoo.errors import UserError
from vitzoo.paths import expanded

NAMED = 5  # files that a message lists
SUFFIXES = (".jsonl", ".ndjson", ".json")


class LineReader:
    """Reads example i from its line; labels become indices of classes."""

    def __init__(self, paths: Sequence[str], places: np.ndarray, own: dict[str, str], classes: Sequence[str] | None):
        self.files, self.places, self.own = MappedFiles(paths), places, own  # places: file, line, first byte, length
        self.index = None if classes is None else {name: place for place, name in enumerate(classes)}

    def __call__(self, index: int) -> dict[str, Any]:
        file, _, start, length = self.places[index].tolist()
        example = converter(self.own)(spelling.by_name(json.loads(self.files.read(file, start, start + length))))
        if "label" in example:
            label = example["label"]
            example["label"] = number(label) if self.index is None else self.index[class_name(label)]
        if "tags" in example and self.index is not None:
            example["tags"] = [self.index[class_name(tag)] for tag in example["tags"]]
        return example

    def where(self, index: int) -> str:
        file, line, _, _ = self.places[index].tolist()
        return f"{self.files.paths[file]}:{line}"


def open_json_lines(data: Data, path: str) -> Table:
    """The records of a file, or of a folder's files called train.jsonl, validation.jsonl, test.jsonl.

    Fields are those that `data.*_field` names, else the usual ones, the same in every record: see `Source` for
    what they may be. Classes are the labels of train, text and whole numbers or only booleans, sorted (as numbers where
    all are). Other labels are refused where they are named by `data.label_field`, else once something needs labels. A
    file alone is split by a fixed permutation of its records (`data.validation_fraction`).

    Raises:
        UserError: nothing is there; a line isn't JSON, lacks a field or has one of a wrong type (under
            `data.bad_files=stop`); a label of another split that train lacks.
    """
    records = Records(data)
    try:
        files = _files(data, expanded(path).absolute())
        for place, (file, split) in enumerate(files.items()):
            records.read(place, file, split)
    except OSError as error:
        raise UserError("data.name", data.name, f"{error.filename} can't be read: {error.strerror}") from None
    return _table(records, [str(file) for file in files])


def _files(data: Data, root: pathlib.Path) -> dict[pathlib.Path, str | None]:
    """The files, and the split that each is called after."""
    if root.is_file():
        return {root: None}
    if not root.is_dir():
        raise UserError("data.name", data.name, "no such file or folder")
    there = [entry for entry in sorted(root.iterdir()) if is_visible(entry.name)]
    files = {one: standard_split(one.stem) for one in there if one.suffix.lower() in SUFFIXES}
    expected = "a folder must hold train.jsonl, validation.jsonl, test.jsonl, no others"
    if not files:
        raise UserError("data.name", data.name, expected)
    if others := [file.name for file, split in files.items() if split is None]:
        raise UserError("data.name", data.name, f"{', '.join(others[:NAMED])}: no split's name; {expected}")
    # a split that isn't read would be missed only when its numbers are compared
    if unread := [one.name for one in there if one not in files and standard_split(one.name.partition(".")[0])]:
        raise UserError("data.name", data.name, f"{', '.join(unread[:NAMED])}: no file of JSON lines; {expected}")
    for split in dict.fromkeys(files.values()):
        same = [file.name for file in files if files[file] == split]
        if len(same) > 1:
            raise UserError("data.name", data.name, f"{' and '.join(same)} are both {split}; leave one of them")
    return files


def _table(records: Records, files: Sequence[str]) -> Table:
    if records.own is None:
        raise records.refused(f"no record can be read: {records.first_fault}" if records.bad else "holds no records")
    own = {field: name for field, name in records.own.items() if field != "label" or records.unusable is None}
    splits, notes = _splits(records)
    classes = _classes(records, own, splits)
    reader = LineReader(files, np.array(records.places, np.int64), own, classes)
    return Table(
        name=records.data.name,
        fields=kinds_of(own, "label" if classes else "number"),
        splits=splits,
        checksums=np.array(records.sums, np.uint64),
        read=reader,
        where=reader.where,
        classes=classes,
        labels=_label_array(records, own, classes, reader),
        notes=(*records.notes, *notes, *_equal_notes(records, splits, reader)),
        unusable=records.unusable,
        checked=True,
        contents=np.array(records.keys, np.uint64),
    )


def _equal_notes(records: Records, splits: dict[str, np.ndarray], reader: LineReader) -> tuple[str, ...]:
    units = numbered(np.array(records.keys, np.uint64))
    labels = [] if records.unusable or records.data.regression else records.labels
    conflicts = [
        (one, other)
        for one, other in (differing(units, labels) if labels else ())
        if inputs_of(reader(one)) == inputs_of(reader(other))
    ]
    torn = () if None in records.splits else torn_note(units, splits, reader.where, "record")
    return (
        *equal_notes(units, conflicts, reader.where, lambda row: " ".join(map(str, labels[row])), thing="record"),
        *torn,
    )


def _splits(records: Records) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    stated = records.splits
    if None in stated:
        return carved(np.array(records.keys, np.uint64), records.data.validation_fraction)
    names = [name for name in ("train", "validation", "test") if name in stated]
    return {name: np.flatnonzero([split == name for split in stated]) for name in names}, ()


def _classes(records: Records, own: dict[str, str], splits: dict[str, np.ndarray]) -> tuple[str, ...] | None:
    if "tags" in own and records.data.regression:
        raise UserError("data.regression", True, f"the tags of {records.data.name} are classes, not numbers")
    if records.data.regression or not {"label", "tags"} & set(own):
        return None
    # where vitzoo draws the split, a class that only validation holds is one too
    drawn = None in records.splits or "train" not in splits
    train = np.arange(len(records.labels)) if drawn else splits["train"]
    classes = sorted_classes(name for row in train for name in records.labels[row])
    if not classes:
        raise records.refused("no word has a tag")
    return classes


def _label_array(
    records: Records, own: dict[str, str], classes: tuple[str, ...] | None, reader: LineReader
) -> np.ndarray | None:
    """One label for each example, checked; of word labels none, though they are checked too."""
    if classes is None:
        return np.array([row[0] for row in records.labels], np.float32) if "label" in own else None
    index = {name: place for place, name in enumerate(classes)}
    for example, row in enumerate(records.labels):
        if unknown := [name for name in row if name not in index]:
            raise records.refused(f"{reader.where(example)}: train has no label {unknown[0]!r}")
    return None if "tags" in own else np.array([index[row[0]] for row in records.labels], np.int32)
