"""Records of named fields, as JSON lines and CSV files hold them: read one after another, fields found, labels checked,
what is bad left out.
"""

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from vitzoo import spelling
from vitzoo.data import left_out
from vitzoo.data.duplicates import checksum, differing, equal_notes, numbered, torn_note
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import NOT_TEXT, Example, Table, kinds_of
from vitzoo.data.sources.fields import FORMS, recognise, several_fit
from vitzoo.data.sources.image_table import ImageFile, image_file, table_of_files
from vitzoo.data.sources.labels import ClassNames, class_name, number, sorted_classes
from vitzoo.data.sources.values import converter, names_of
from vitzoo.data.splits import carved
from vitzoo.errors import UserError

Record = Mapping[str, Any]


class Lines(Protocol):
    """The records that were taken, read again by their number."""

    def __getitem__(self, index: int) -> Record: ...

    def where(self, index: int) -> str:
        """The file and line or row of record `index`, for messages."""
        ...


class Records:
    """What has been read so far.

    Args:
        data: names fields.
        forms: what the fields of a record may be, see `fields.FORMS`.
        written: values are all text, numbers too, as in a CSV file.

    Attributes:
        own: canonical to own names of the fields; None before the first record.
        files: of each example of images, its file.
        sums: checksums of the records' contents.
        keys: checksums of their inputs, without labels: the same for equal ones.
        splits: what each example's file is called after.
        labels: of each example, names of classes, or for regression a number; none where labels are of no use.
        bad: records left out.
        first_fault: what is wrong with the first of them.
        unusable: why labels that nobody asked for by name are of no use.
    """

    def __init__(self, data: Data, forms: Sequence[tuple[str, ...]] = FORMS, *, written: bool = False):
        self.data, self.forms, self.written = data, forms, written
        self.own: dict[str, str] | None = None
        self.files: list[ImageFile] = []
        self.sums: list[int] = []
        self.keys: list[int] = []
        self.splits: list[str | None] = []
        self.labels: list[list[Any]] = []
        self.bad = 0
        self.first_fault = ""
        self.unusable: UserError | None = None
        self._class_names = ClassNames()
        self._unique: set[tuple[str, ...]] = set()  # names of a record's fields, of which each part has one

    def takes(
        self, read: Callable[[], Record], content: bytes, where: str, split: str | None, folder: pathlib.Path
    ) -> bool:
        """Whether a record holds an example, which is kept. Another one stops, or is named and left out.

        Args:
            read: gives the record; ValueError says what is wrong with it.
            content: as it is written.
            where: it stands, for messages.
            split: that it is of; None where the data state none.
            folder: that files are relative to.

        Raises:
            UserError: it isn't one of the first one's fields (under `data.bad_files=stop`).
        """
        try:
            self._take(read, where, split, folder)
        except UserError as refusal:
            if self.data.bad_files == "stop":
                raise
            left_out.name(refusal.message)
            self.first_fault = self.first_fault or refusal.message
            self.bad += 1
            return False
        self.sums.append(checksum(content))
        self.splits.append(split)
        return True

    def refused(self, problem: str) -> UserError:
        """A refusal of these data."""
        return UserError("data.name", self.data.name, problem)

    def table(self, lines: Lines) -> Table:
        """All examples, whose records `lines` gives again."""
        if self.own is None:
            raise self.refused(f"no record can be read: {self.first_fault}" if self.bad else "holds no records")
        if "image" in self.own:
            several = any(len(labels) != 1 for labels in self.labels) and "label" in self.own
            return table_of_files(self.files, self.data, multi_label=several, notes=self.notes)
        own = {field: name for field, name in self.own.items() if field != "label" or self.unusable is None}
        splits, notes = self._parts()
        classes = self._classes(own, splits)
        reader = Reader(lines, own, classes, self.written)
        return Table(
            name=self.data.name,
            fields=kinds_of(own, "label" if classes else "number"),
            splits=splits,
            checksums=np.array(self.sums, np.uint64),
            read=reader,
            where=reader.where,
            classes=classes,
            labels=self._label_array(own, classes, reader),
            notes=(*self.notes, *notes, *self._equal_notes(splits, reader)),
            unusable=self.unusable,
            checked=True,
            contents=np.array(self.keys, np.uint64),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What isn't used."""
        bad = (f"{self.bad:,} records left out, can't be read",) if self.bad else ()
        if self.unusable is not None:
            return (*bad, f"labels aren't used: {self.unusable.message}")
        return (*bad, *spelling.joined_note(self._class_names.spellings, "class", "classes"))

    def _take(self, read: Callable[[], Record], where: str, split: str | None, folder: pathlib.Path) -> None:
        try:
            record = read()
        except ValueError as error:
            raise self.refused(f"{where} {error}") from None
        own = self.own or recognise(record, self.data, self.forms)
        if missing := [name for field in own.values() for name in names_of(field) if name not in record]:
            raise self.refused(f"{where} has no field {missing[0]!r}, which earlier lines have")
        if (fields := tuple(record)) not in self._unique:  # mostly all records have the same
            if several := several_fit(own, record, self.data):
                raise self.refused(f"{where}: {several}")
            self._unique.add(fields)
        try:
            example: Example = converter(own)(record)
            labels = self._named(example, where)
        except ValueError as error:
            raise self.refused(f"{where}: {error}") from None
        self.own = own
        self.labels.append(labels)
        self.keys.append(checksum(json.dumps(inputs_of(example)).encode()))
        if "image" in example:
            texts = {"text": example["text"]} if "text" in example else {}
            self.files.append(image_file(example["image"], folder, split or "", tuple(labels), texts))

    def _named(self, example: Example, where: str) -> list[Any]:
        """An example's labels as names of classes, or for regression as numbers."""
        if "label" in example and self.data.regression:
            return [number(example["label"], self.written)]
        labels = example["tags"] if "tags" in example else [example["label"]] if "label" in example else []
        if "image" in example and labels and isinstance(labels[0], list):
            labels = labels[0]
        try:
            return self._class_names(labels)
        except ValueError as error:
            if {"tags", "image"} & set(example) or self.data.label_field:
                raise
            self.unusable = self.unusable or self.refused(f"{where}: {error}")
            return []

    def _parts(self) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
        if None in self.splits:
            return carved(np.array(self.keys, np.uint64), self.data.validation_fraction)
        usual = [name for name in ("train", "validation", "test") if name in self.splits]
        order = dict.fromkeys([*usual, *sorted(map(str, self.splits))])
        return {name: np.flatnonzero([split == name for split in self.splits]) for name in order}, ()

    def _classes(self, own: Mapping[str, str], splits: Mapping[str, np.ndarray]) -> tuple[str, ...] | None:
        if "tags" in own and self.data.regression:
            raise UserError("data.regression", True, f"the tags of {self.data.name} are classes, not numbers")
        if self.data.regression or not {"label", "tags"} & set(own):
            return None
        # where vitzoo draws the split, a class that only validation holds is one too
        drawn = None in self.splits or "train" not in splits
        train = np.arange(len(self.labels)) if drawn else splits["train"]
        classes = sorted_classes(name for row in train for name in self.labels[row])
        if not classes:
            raise self.refused("no word has a tag")
        return classes

    def _label_array(
        self, own: Mapping[str, str], classes: tuple[str, ...] | None, reader: "Reader"
    ) -> np.ndarray | None:
        """One label for each example, checked; of word labels none, though they are checked too."""
        if classes is None:
            return np.array([row[0] for row in self.labels], np.float32) if "label" in own else None
        index = {name: place for place, name in enumerate(classes)}
        for example, row in enumerate(self.labels):
            if unknown := [name for name in row if name not in index]:
                raise self.refused(f"{reader.where(example)}: train has no label {unknown[0]!r}")
        return None if "tags" in own else np.array([index[row[0]] for row in self.labels], np.int32)

    def _equal_notes(self, splits: Mapping[str, np.ndarray], reader: "Reader") -> tuple[str, ...]:
        units = numbered(np.array(self.keys, np.uint64))
        labels = [] if self.unusable or self.data.regression else self.labels
        conflicts = [
            (one, other)
            for one, other in (differing(units, labels) if labels else ())
            if inputs_of(reader(one)) == inputs_of(reader(other))
        ]
        torn = () if None in self.splits else torn_note(units, splits, reader.where, "record")
        return (
            *equal_notes(units, conflicts, reader.where, lambda row: " ".join(map(str, labels[row])), thing="record"),
            *torn,
        )


def inputs_of(example: Example) -> list[Any]:
    """What of an example a model is given, without what it is to say of it."""
    return [value for field, value in example.items() if field not in NOT_TEXT]


class Reader:
    """Reads example i from its record; labels become indices of classes."""

    def __init__(self, lines: Lines, own: Mapping[str, str], classes: Sequence[str] | None, written: bool):
        self.lines, self.own, self.written, self.where = lines, own, written, lines.where
        self.index = None if classes is None else {name: place for place, name in enumerate(classes)}

    def __call__(self, index: int) -> Example:
        example: Example = converter(self.own)(self.lines[index])
        if "label" in example:
            label = example["label"]
            example["label"] = number(label, self.written) if self.index is None else self.index[class_name(label)]
        if "tags" in example and self.index is not None:
            example["tags"] = [self.index[class_name(tag)] for tag in example["tags"]]
        return example
