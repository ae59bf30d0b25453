"""A table of image files with labels and splits: what folders and CSV files have in common."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from vitzoo.data import left_out
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Labels, Table
from vitzoo.data.sources.index import FileFacts, index_files
from vitzoo.errors import Refused

NAMED = 5  # bad files that a message lists
LEFT_OUT = "files left out, can't be read"
SPLIT_NAMES = {
    "train": ("train", "training", "train_set", "trainset"),
    "validation": ("validation", "val", "valid", "dev", "val_set", "validation_set"),
    "test": ("test", "testing", "test_set", "testset"),
}
_STANDARD = {alias: name for name, aliases in SPLIT_NAMES.items() for alias in aliases}


def standard_split(name: str) -> str | None:
    """train, validation or test for their usual names, in any case; None for others."""
    return _STANDARD.get(name.strip().lower())


@dataclasses.dataclass(frozen=True)
class LabelledFile:
    """`name` is the path as the user knows it (relative); `split` is empty where the data states none."""

    path: str
    name: str
    split: str
    labels: tuple[str, ...]


def table_of_files(files: Sequence[LabelledFile], data: Data, *, multi_label: bool) -> Table:
    """Reads every file once, settles classes and splits.

    Classes are the train part's labels, sorted (as numbers where all are numbers). Where the data states no split,
    `validation` is `data.validation_fraction` of each class (of all files, with several labels), chosen by a hash of
    the file's name, at least one and never all of a class; mostly the same files stay chosen when some are added.

    Raises:
        Refused: files can't be read (`bad_files=stop`), nothing is left, or a label is not among the classes.
    """
    facts = index_files([file.path for file in files], data.name)
    files, facts, notes = _without_bad(files, facts, data)
    splits = _stated_splits(files) if files[0].split else _carved_splits(files, data.validation_fraction, multi_label)
    classes = _classes(files, splits, data)
    shapes = {(fact.height, fact.width) for fact in facts}
    return Table(
        name=data.name,
        classes=classes,
        labels=_label_array(files, classes, multi_label),
        checksums=np.array([fact.checksum for fact in facts], np.uint32),
        splits=splits,
        channels=max(fact.channels for fact in facts),
        image_shape=shapes.pop() if len(shapes) == 1 else None,
        read=FileBytes([file.path for file in files]),
        files=[file.path for file in files],
        notes=tuple(notes),
    )


class FileBytes:
    """The bytes of file i."""

    def __init__(self, paths: Sequence[str]):
        self.paths = paths

    def __call__(self, index: int) -> bytes:
        return pathlib.Path(self.paths[index]).read_bytes()


def _without_bad(
    files: Sequence[LabelledFile], facts: Sequence[FileFacts], data: Data
) -> tuple[list[LabelledFile], list[FileFacts], list[str]]:
    bad = [f"{file.path} ({fact.error})" for file, fact in zip(files, facts, strict=True) if fact.error]
    kept = [(file, fact) for file, fact in zip(files, facts, strict=True) if not fact.error]
    listed = "; ".join(bad[:NAMED]) + ("; ..." if len(bad) > NAMED else "")
    if not kept:
        raise Refused("data.name", data.name, f"none of its {len(files):,} files can be read: {listed}")
    if bad and data.bad_files == "stop":
        raise Refused(
            "data.name",
            data.name,
            f"{len(bad):,} of {len(files):,} files can't be read: {listed}. "
            "Repair or remove them, or leave them out and go on: data.bad_files=skip",
        )
    for file_and_reason in bad:
        left_out.name(file_and_reason)
    notes = [f"{len(bad):,} of {len(files):,} {LEFT_OUT}"] if bad else []
    return [file for file, _ in kept], [fact for _, fact in kept], notes


def _stated_splits(files: Sequence[LabelledFile]) -> dict[str, np.ndarray]:
    names = {file.split for file in files}
    order = [name for name in SPLIT_NAMES if name in names] + sorted(names - set(SPLIT_NAMES))
    return {name: np.array([row for row, file in enumerate(files) if file.split == name]) for name in order}


def _carved_splits(files: Sequence[LabelledFile], fraction: float, multi_label: bool) -> dict[str, np.ndarray]:
    if not fraction:
        return {"train": np.arange(len(files))}
    groups: dict[str, list[int]] = {}
    for row, file in enumerate(files):
        groups.setdefault("" if multi_label else file.labels[0], []).append(row)
    held: list[int] = []
    for rows in groups.values():
        ranked = sorted(
            rows, key=lambda row: hashlib.sha256(files[row].name.encode("utf-8", "surrogateescape")).digest()
        )
        held += ranked[: min(len(rows) - 1, max(1, round(fraction * len(rows))))]
    validation = np.sort(np.array(held, int))
    return {"train": np.setdiff1d(np.arange(len(files)), validation), "validation": validation}


def sorted_classes(names: Iterable[str]) -> tuple[str, ...]:
    """By number where every name is one (2 before 10), else by text."""
    unique = set(names)
    numbers = all(name.removeprefix("-").isdecimal() for name in unique)
    return tuple(sorted(unique, key=lambda name: (int(name), name))) if numbers else tuple(sorted(unique))


def _classes(files: Sequence[LabelledFile], splits: Mapping[str, np.ndarray], data: Data) -> tuple[str, ...]:
    known = splits.get("train", np.arange(len(files)))
    classes = sorted_classes(label for row in known for label in files[row].labels)
    for split, rows in splits.items():
        unknown = sorted_classes(label for row in rows for label in files[row].labels if label not in set(classes))
        if unknown:
            first = next(files[row].name for row in rows if unknown[0] in files[row].labels)
            raise Refused(
                "data.name", data.name, f"{split} has labels that train lacks: {', '.join(unknown)} (as {first})"
            )
    if not classes:
        raise Refused("data.name", data.name, "no file has a label")
    return classes


def _label_array(files: Sequence[LabelledFile], classes: tuple[str, ...], multi_label: bool) -> Labels:
    number = {name: index for index, name in enumerate(classes)}
    if not multi_label:
        return np.array([number[file.labels[0]] for file in files], np.int32)
    labels = np.zeros((len(files), len(classes)), np.float32)
    for row, file in enumerate(files):
        labels[row, [number[label] for label in file.labels]] = 1
    return labels
