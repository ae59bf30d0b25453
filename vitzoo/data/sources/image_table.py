"""A table of image files with labels, texts and splits: what folders, CSV files and JSON lines have in common."""

import collections
import dataclasses
import hashlib
import os
import pathlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vitzoo import spelling
from vitzoo.data import left_out
from vitzoo.data.duplicates import differing, equal_files, equal_notes, hold_out, torn_note
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Example, Labels, Table, kinds_of
from vitzoo.data.sources.index import FileFacts, index_files
from vitzoo.data.sources.labels import sorted_classes
from vitzoo.data.splits import SPLIT_NAMES
from vitzoo.errors import UserError
from vitzoo.paths import expanded
from vitzoo.strict_json import JSON

NAMED = 5  # bad files that a message lists
LEFT_OUT = "files left out, can't be read"


@dataclasses.dataclass(frozen=True)
class ImageFile:
    """`name` is the path as the user knows it (relative); `split` is empty where the data states none; `labels` are as
    they are written, or for regression a number; `texts` are further fields of the example.
    """

    path: str
    name: str
    split: str
    labels: tuple[Any, ...]
    texts: Mapping[str, JSON] = dataclasses.field(default_factory=dict)


def image_file(
    written: str, folder: pathlib.Path, split: str, labels: tuple[Any, ...], texts: Mapping[str, JSON]
) -> ImageFile:
    """A file that a record names, relative to a folder: as it is written where there is one of that name, which spaces
    may begin or end; else without these.
    """
    plain = written.strip()
    name = written if written != plain and plain and os.path.lexists(folder / expanded(written)) else plain
    return ImageFile(str(folder / expanded(name)), name, split, labels, texts)


def table_of_files(
    files: Sequence[ImageFile], data: Data, *, multi_label: bool = False, notes: Sequence[str] = ()
) -> Table:
    """Reads every file once, settles classes and splits.

    Classes are the train part's labels, sorted (as numbers where all are numbers); spellings that look alike are one.
    Where the data states no split, `validation` is `data.validation_fraction` of each class (of all files, with several
    labels, numbers or none), chosen by a hash of the file's name, at least one and never all of a class; mostly the
    same files stay chosen when some are added. Files whose bytes are equal go to one part, to train if their labels
    differ.

    Args:
        notes: of what was left out before.

    Raises:
        UserError: files can't be read (`bad_files=stop`), nothing is left, or a label is not among the classes.
    """
    facts = index_files([file.path for file in files], data.name)
    files, facts, left = _without_bad(files, facts, data)
    labelled, joined = multi_label or any(file.labels for file in files), tuple[str, ...]()
    if labelled and not data.regression:
        files, joined = _one_spelling(files)
    grouped = labelled and not (multi_label or data.regression)
    units = equal_files([file.path for file in files], [f.bytes for f in facts], [f.checksum for f in facts])
    stated = bool(files[0].split)
    conflicts = differing(units, [frozenset(file.labels) for file in files])
    called, shown = (lambda row: files[row].name), (lambda row: "|".join(map(str, files[row].labels)))
    same = equal_notes(units, conflicts, called, shown, thing="file")
    splits = _stated_splits(files) if stated else _carved_splits(files, data, units, conflicts, grouped)
    classes = _classes(files, splits, data) if labelled and not data.regression else None
    shapes = {(fact.height, fact.width) for fact in facts}
    fields = ["image", *files[0].texts, *(["label"] if labelled else [])]
    return Table(
        name=data.name,
        fields=kinds_of(fields, "labels" if multi_label else "label" if classes else "number"),
        splits=splits,
        checksums=np.array([_checksum_of(file, fact) for file, fact in zip(files, facts, strict=True)], np.uint32),
        read=ImageFiles(files),
        classes=classes,
        labels=_label_array(files, classes, multi_label) if labelled else None,
        checked=True,
        channels=max(fact.channels for fact in facts),
        image_shape=shapes.pop() if len(shapes) == 1 else None,
        files=[file.path for file in files],
        contents=units,
        notes=(
            *notes,
            *left,
            *joined,
            *same,
            *(torn_note(units, splits, lambda row: files[row].name, "file") if stated else ()),
        ),
    )


def _checksum_of(file: ImageFile, facts: FileFacts) -> int:
    """That of the file and of the texts that belong to it."""
    return (
        zlib.crc32(repr(dict(file.texts)).encode("utf-8", "replace"), facts.checksum) if file.texts else facts.checksum
    )


def _one_spelling(files: Sequence[ImageFile]) -> tuple[Sequence[ImageFile], tuple[str, ...]]:
    """The files with labels in one spelling, and a note of those that had several."""
    spellings = {label for file in files for label in file.labels}
    if all(spelling.normalise(label) == label for label in spellings):
        return files, ()
    files = [
        dataclasses.replace(file, labels=tuple(dict.fromkeys(map(spelling.normalise, file.labels)))) for file in files
    ]
    return files, spelling.joined_note(spellings, "class", "classes")


class ImageFiles:
    """Example i: the bytes of its file, and its texts."""

    def __init__(self, files: Sequence[ImageFile]):
        self.paths = [file.path for file in files]
        self.texts = [file.texts for file in files] if files[0].texts else None

    def __call__(self, index: int) -> Example:
        example = {"image": pathlib.Path(self.paths[index]).read_bytes()}
        return example if self.texts is None else {**example, **self.texts[index]}


def _without_bad(
    files: Sequence[ImageFile], facts: Sequence[FileFacts], data: Data
) -> tuple[list[ImageFile], list[FileFacts], list[str]]:
    bad = [f"{file.path} ({fact.error})" for file, fact in zip(files, facts, strict=True) if fact.error]
    kept = [(file, fact) for file, fact in zip(files, facts, strict=True) if not fact.error]
    listed = "; ".join(bad[:NAMED]) + ("; ..." if len(bad) > NAMED else "")
    if not kept:
        raise UserError("data.name", data.name, f"none of its {len(files):,} files can be read: {listed}")
    if bad and data.bad_files == "stop":
        raise UserError(
            "data.name",
            data.name,
            f"{len(bad):,} of {len(files):,} files can't be read: {listed}. "
            "Repair or remove them, or leave them out and go on: data.bad_files=skip",
        )
    for file_and_reason in bad:
        left_out.name(file_and_reason)
    notes = [f"{len(bad):,} of {len(files):,} {LEFT_OUT}"] if bad else []
    return [file for file, _ in kept], [fact for _, fact in kept], notes


def _stated_splits(files: Sequence[ImageFile]) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for row, file in enumerate(files):
        rows.setdefault(file.split, []).append(row)
    order = [name for name in SPLIT_NAMES if name in rows] + sorted(rows.keys() - set(SPLIT_NAMES))
    return {name: np.array(rows[name]) for name in order}


def _carved_splits(
    files: Sequence[ImageFile],
    data: Data,
    units: np.ndarray,
    conflicts: Sequence[tuple[int, int]],
    grouped: bool,
) -> dict[str, np.ndarray]:
    fraction = data.validation_fraction
    if not fraction:
        return {"train": np.arange(len(files))}
    contradictory = set(units[[row for row, _ in conflicts]].tolist())
    sizes: collections.Counter[str] = collections.Counter()
    groups: dict[str, list[int]] = {}
    for row, file in enumerate(files):
        group = file.labels[0] if grouped else ""
        sizes[group] += 1
        if int(units[row]) not in contradictory:
            groups.setdefault(group, []).append(row)
    held: list[int] = []
    for group, rows in groups.items():
        ranked = sorted(
            rows, key=lambda row: hashlib.sha256(files[row].name.encode("utf-8", "surrogateescape")).digest()
        )
        held += hold_out(ranked, units, min(sizes[group] - 1, max(1, round(fraction * sizes[group])))).tolist()
    validation = np.sort(np.array(held, int))
    return {"train": np.setdiff1d(np.arange(len(files)), validation), "validation": validation}


def _classes(files: Sequence[ImageFile], splits: Mapping[str, np.ndarray], data: Data) -> tuple[str, ...]:
    known = splits.get("train", np.arange(len(files)))
    classes = sorted_classes(label for row in known for label in files[row].labels)
    known_labels = set(classes)
    for split, rows in splits.items():
        unknown = sorted_classes(label for row in rows for label in files[row].labels if label not in known_labels)
        if unknown:
            first = next(files[row].name for row in rows if unknown[0] in files[row].labels)
            listed = ", ".join(unknown[:NAMED]) + (
                f" and {len(unknown) - NAMED:,} more" if len(unknown) > NAMED else ""
            )
            raise UserError("data.name", data.name, f"{split} has labels that train lacks: {listed} (as {first})")
    if not classes:
        raise UserError("data.name", data.name, "no file has a label")
    return classes


def _label_array(files: Sequence[ImageFile], classes: tuple[str, ...] | None, multi_label: bool) -> Labels:
    if classes is None:
        return np.array([file.labels[0] for file in files], np.float32)
    number = {name: index for index, name in enumerate(classes)}
    if not multi_label:
        return np.array([number[file.labels[0]] for file in files], np.int32)
    labels = np.zeros((len(files), len(classes)), np.float32)
    for row, file in enumerate(files):
        labels[row, [number[label] for label in file.labels]] = 1
    return labels
