"""The records of JSON lines as they are read, one after another: fields found, labels checked, what is bad left out."""

import json
import pathlib
from typing import Any

from vitzoo import spelling
from vitzoo.data import left_out
from vitzoo.data.settings import Data
from vitzoo.data.text.sources.base import NOT_TEXT, checksum
from vitzoo.data.text.sources.fields import converter, recognise, several_fit
from vitzoo.data.text.sources.labels import ClassNames, number
from vitzoo.data.text.sources.template import names_of
from vitzoo.errors import UserError
from vitzoo.strict_json import record_of


def inputs_of(example: dict[str, Any]) -> list[Any]:
    """What of an example a model is given, without what it is to say of it."""
    return [value for field, value in example.items() if field not in NOT_TEXT]


class Records:
    """What has been read so far.

    Attributes:
        own: canonical to own names of the fields; None before the first record.
        places: of each example, its file's number, its line, first byte and length.
        sums: checksums of their lines.
        keys: checksums of their inputs, without labels: the same for equal ones.
        splits: what each example's file is called after.
        labels: of each example, names of classes, or for regression a number; none where labels are of no use.
        bad: records left out.
        first_fault: what is wrong with the first of them.
        unusable: why labels that nobody asked for by name are of no use.
    """

    def __init__(self, data: Data):
        self.data = data
        self.own: dict[str, str] | None = None
        self.places: list[tuple[int, int, int, int]] = []
        self.sums: list[int] = []
        self.keys: list[int] = []
        self.splits: list[str | None] = []
        self.labels: list[list[Any]] = []
        self.bad = 0
        self.first_fault = ""
        self.unusable: UserError | None = None
        self._class_names = ClassNames()
        self._unique: set[tuple[str, ...]] = set()  # names of a record's fields, of which each part has one

    def read(self, place: int, file: pathlib.Path, split: str | None) -> None:
        """Reads every line of a file once.

        Args:
            place: the file's number.
            file: its path.
            split: that it is called after.

        Raises:
            UserError: a line holds no record of the first one's fields (under `data.bad_files=stop`).
        """
        start = 0
        with open(file, "rb") as opened:
            for line, content in enumerate(opened, 1):
                if content.strip() and self._takes(content, f"{file.name}:{line}"):
                    self.places.append((place, line, start, len(content)))
                    self.sums.append(checksum(content.strip()))
                    self.splits.append(split)
                start += len(content)

    def refused(self, problem: str) -> UserError:
        """A refusal of these data."""
        return UserError("data.name", self.data.name, problem)

    @property
    def notes(self) -> tuple[str, ...]:
        """What isn't used."""
        bad = (f"{self.bad:,} records left out, can't be read",) if self.bad else ()
        if self.unusable is not None:
            return (*bad, f"labels aren't used: {self.unusable.message}")
        return (*bad, *spelling.joined_note(self._class_names.spellings, "class", "classes"))

    def _takes(self, content: bytes, where: str) -> bool:
        """Whether a line holds an example, whose labels are kept. Another one stops, or is named and left out."""
        try:
            labels, key = self._labels_of(content, where)
        except UserError as refusal:
            if self.data.bad_files == "stop":
                raise
            left_out.name(refusal.message)
            self.first_fault = self.first_fault or refusal.message
            self.bad += 1
            return False
        self.labels.append(labels)
        self.keys.append(key)
        return True

    def _labels_of(self, content: bytes, where: str) -> tuple[list[Any], int]:
        """An example's labels, and the key of its inputs."""
        try:
            record = record_of(content)
        except ValueError as error:
            raise self.refused(f"{where} {error}") from None
        own = self.own or recognise(record, self.data)
        if missing := [name for field in own.values() for name in names_of(field) if name not in record]:
            raise self.refused(f"{where} has no field {missing[0]!r}, which earlier lines have")
        if (fields := tuple(record)) not in self._unique:  # mostly all records have the same
            if several := several_fit(own, record, self.data):
                raise self.refused(f"{where}: {several}")
            self._unique.add(fields)
        try:
            example = converter(own)(record)
            labels = self._named(example, where)
        except ValueError as error:
            raise self.refused(f"{where}: {error}") from None
        self.own = own
        return labels, checksum(json.dumps(inputs_of(example)).encode())

    def _named(self, example: dict[str, Any], where: str) -> list[Any]:
        """An example's labels as names of classes, or for regression as numbers."""
        if "label" in example and self.data.regression:
            return [number(example["label"])]
        labels = example["tags"] if "tags" in example else [example["label"]] if "label" in example else []
        try:
            return self._class_names(labels)
        except ValueError as error:
            if "tags" in example or self.data.label_field:
                raise
            self.unusable = self.unusable or self.refused(f"{where}: {error}")
            return []
