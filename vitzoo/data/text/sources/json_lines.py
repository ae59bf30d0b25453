"""`jsonl:FILE|FOLDER`: one JSON object a line."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitzoo.data import left_out
from vitzoo.data.settings import Data
from vitzoo.data.sources.files import standard_split
from vitzoo.data.text.settings import Text
from vitzoo.data.text.sources.base import TextTable, carved, checksum
from vitzoo.data.text.sources.fields import converter, recognise
from vitzoo.data.text.sources.mapped import MappedFiles
from vitzoo.errors import Refused

SUFFIXES = (".jsonl", ".ndjson", ".json")


class LineReader:
    """Reads example i from its line; labels become indices of classes."""

    def __init__(self, paths: Sequence[str], places: np.ndarray, own: dict[str, str], classes: Sequence[str] | None):
        self.files, self.places, self.own = MappedFiles(paths), places, own  # places: file, line, first byte, length
        self.index = None if classes is None else {name: number for number, name in enumerate(classes)}

    def __call__(self, index: int) -> dict[str, Any]:
        file, _, start, length = self.places[index].tolist()
        example = converter(self.own)(json.loads(self.files.read(file, start, start + length)))
        if "label" in example:
            label = example["label"]
            example["label"] = float(label) if self.index is None else self.index[str(label)]
        if "tags" in example and self.index is not None:
            example["tags"] = [self.index[str(tag)] for tag in example["tags"]]
        return example

    def where(self, index: int) -> str:
        file, line, _, _ = self.places[index].tolist()
        return f"{self.files.paths[file]}:{line}"


def open_json_lines(data: Data, path: str, text: Text) -> TextTable:
    """The records of a file, or of a folder's files called train.jsonl, validation.jsonl, test.jsonl.

    Fields are those that `text.*_field` names, else the usual ones, the same in every record: see `TextSource` for
    what they may be. Classes are the labels of train, sorted (as numbers where all are). A file alone is split by a
    fixed permutation of its records (`data.validation_fraction`).

    Raises:
        Refused: nothing is there; a line isn't JSON or lacks a field (under `data.bad_files=stop`); a label of another
            split that train lacks.
    """
    files, names = _files(data, pathlib.Path(path).expanduser().absolute())
    places, sums, labels, stated = [], [], [], []
    own: dict[str, str] | None = None
    bad = 0
    for number, file in enumerate(files):
        start = 0
        with open(file, "rb") as opened:
            for line, content in enumerate(opened, 1):
                found = _read(data, file, line, content, own, text) if content.strip() else None
                bad += found is None and bool(content.strip())
                if found is not None:
                    own, example = found
                    places.append((number, line, start, len(content)))
                    sums.append(checksum(content.strip()))
                    labels.append(_labels(example))
                    stated.append(names[number])
                start += len(content)
    if own is None:
        raise Refused("data.name", data.name, "holds no records")
    splits, notes = _splits(data, stated)
    notes = (*((f"{bad:,} records left out, can't be read",) if bad else ()), *notes)
    classes = None if text.regression or not labels[0] else _classes(labels, splits)
    reader = LineReader([str(file) for file in files], np.array(places, np.int64), own, classes)
    return TextTable(
        name=data.name, fields=tuple(own), splits=splits, checksums=np.array(sums, np.uint64), read=reader,
        where=reader.where, classes=classes, labels=_label_array(data, labels, own, classes, reader), notes=notes,
    )  # fmt: skip


def _files(data: Data, root: pathlib.Path) -> tuple[list[pathlib.Path], list[str | None]]:
    if root.is_file():
        return [root], [None]
    if not root.is_dir():
        raise Refused("data.name", data.name, "no such file or folder")
    files = sorted(file for file in root.iterdir() if file.suffix in SUFFIXES)
    names = [standard_split(file.stem) for file in files]
    if not files or None in names:
        raise Refused("data.name", data.name, "a folder must hold train.jsonl, validation.jsonl, test.jsonl, no others")
    return files, names


def _read(
    data: Data, file: pathlib.Path, line: int, content: bytes, own: dict[str, str] | None, text: Text
) -> tuple[dict[str, str], dict[str, Any]] | None:
    """The names of the fields and the example of a line; None where it can't be read and is left out."""
    try:
        record = _record(data, file, line, content)
        own = own or recognise(list(record), text, data.name)
        return own, _example(data, file, line, record, own)
    except Refused as refusal:
        if data.bad_files == "stop":
            raise
        left_out.name(refusal.message)
        return None


def _record(data: Data, file: pathlib.Path, line: int, content: bytes) -> dict[str, Any]:
    try:
        record = json.loads(content)
    except ValueError as error:
        raise Refused("data.name", data.name, f"{file.name}:{line} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise Refused("data.name", data.name, f"{file.name}:{line} is not an object with fields")
    return record


def _example(data: Data, file: pathlib.Path, line: int, record: dict, own: dict[str, str]) -> dict[str, Any]:
    missing = [name for name in own.values() if name not in record]
    if missing:
        raise Refused(
            "data.name", data.name, f"{file.name}:{line} has no field {missing[0]!r}, which earlier lines have"
        )
    try:
        example = converter(own)(record)
        if "tags" in example and len(example["tags"]) != len(example["words"]):
            raise ValueError("words and tags differ in number")
        if "answer" in example and not 0 <= int(example["answer"]) < len(example["choices"]):
            raise ValueError("the answer must be the index of a choice")
        return example
    except (ValueError, TypeError) as error:
        raise Refused("data.name", data.name, f"{file.name}:{line}: {error}") from None


def _labels(example: dict[str, Any]) -> list[Any]:
    return example["tags"] if "tags" in example else [example["label"]] if "label" in example else []


def _splits(data: Data, stated: list[str | None]) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    if None in stated:
        return carved(len(stated), data.validation_fraction)
    names = [name for name in ("train", "validation", "test") if name in stated]
    return {name: np.flatnonzero([split == name for split in stated]) for name in names}, ()


def _classes(labels: list[list[Any]], splits: dict[str, np.ndarray]) -> tuple[str, ...]:
    rows = splits.get("train", np.arange(len(labels)))
    names = {str(label) for row in rows for label in labels[row]}
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))


def _label_array(
    data: Data, labels: list[list[Any]], own: dict[str, str], classes: tuple[str, ...] | None, reader: LineReader
) -> np.ndarray | None:
    """One label for each example, checked; of word labels none, though they are checked too."""
    if not ({"label", "tags"} & set(own)):
        return None
    if classes is None:
        try:
            return np.array([float(row[0]) for row in labels], np.float32)
        except (TypeError, ValueError):
            raise Refused("text.regression", True, f"the labels of {data.name} are not all numbers") from None
    index = {name: number for number, name in enumerate(classes)}
    for number, row in enumerate(labels):
        if unknown := [label for label in row if str(label) not in index]:
            raise Refused("data.name", data.name, f"{reader.where(number)}: train has no label {unknown[0]!r}")
    return None if "tags" in own else np.array([index[str(row[0])] for row in labels], np.int32)
