"""A table of image files with labels and splits: what folders and CSV files have in common."""

import collections
import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from vitzoo import literals, spelling
from vitzoo.data import left_out
from vitzoo.data.duplicates import differing, equal_files, equal_notes, hold_out, torn_note
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Example, Labels, Table, kinds_of
from vitzoo.data.sources.index import FileFacts, index_files
from vitzoo.errors import UserError

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
    return _STANDARD.get(spelling.normalise(name).lower())


def split_below(path: pathlib.PurePath, levels: int, split: str | None) -> pathlib.PurePath | None:
    """The outermost folder or file of a path that has a split's name and lies where no split is looked for.

    Args:
        path: relative to the data's folder; of a file its ending is no part of its name.
        levels: the first ones, which have a meaning: that of the split, or of the class.
        split: of the file; a name that says the same once more is none.
    """
    for depth in range(levels, len(path.parts)):
        name = path.parts[depth] if depth + 1 < len(path.parts) else path.stem
        if (stated := standard_split(name)) and stated != split:
            return type(path)(*path.parts[: depth + 1])
    return None


@dataclasses.dataclass(frozen=True)
class LabelledFile:
    """`name` is the path as the user knows it (relative); `split` is empty where the data states none; `labels` are as
    they are written.
    """

    path: str
    name: str
    split: str
    labels: tuple[str, ...]


def table_of_files(files: Sequence[LabelledFile], data: Data, *, multi_label: bool) -> Table:
    """Reads every file once, settles classes and splits.

    Classes are the train part's labels, sorted (as numbers where all are numbers); spellings that look alike are one.
    Where the data states no split, `validation` is `data.validation_fraction` of each class (of all files, with several
    labels), chosen by a hash of the file's name, at least one and never all of a class; mostly the same files stay
    chosen when some are added. Files whose bytes are equal go to one part, to train if their labels differ.

    Raises:
        UserError: files can't be read (`bad_files=stop`), nothing is left, or a label is not among the classes.
    """
    facts = index_files([file.path for file in files], data.name)
    files, facts, notes = _without_bad(files, facts, data)
    files, joined = _one_spelling(files)
    units = equal_files([file.path for file in files], [f.bytes for f in facts], [f.checksum for f in facts])
    stated = bool(files[0].split)
    conflicts = differing(units, [frozenset(file.labels) for file in files])
    called, labelled = (lambda row: files[row].name), (lambda row: "|".join(files[row].labels))
    same = equal_notes(units, conflicts, called, labelled, thing="file")
    splits = _stated_splits(files) if stated else _carved_splits(files, data, units, conflicts, multi_label)
    classes = _classes(files, splits, data)
    shapes = {(fact.height, fact.width) for fact in facts}
    return Table(
        name=data.name,
        fields=kinds_of(("image", "label"), "labels" if multi_label else "label"),
        classes=classes,
        labels=_label_array(files, classes, multi_label),
        checksums=np.array([fact.checksum for fact in facts], np.uint32),
        splits=splits,
        channels=max(fact.channels for fact in facts),
        image_shape=shapes.pop() if len(shapes) == 1 else None,
        read=FileBytes([file.path for file in files]),
        files=[file.path for file in files],
        contents=units,
        notes=(
            *notes,
            *joined,
            *same,
            *(torn_note(units, splits, lambda row: files[row].name, "file") if stated else ()),
        ),
    )


def _one_spelling(files: Sequence[LabelledFile]) -> tuple[Sequence[LabelledFile], tuple[str, ...]]:
    """The files with labels in one spelling, and a note of those that had several."""
    spellings = {label for file in files for label in file.labels}
    if all(spelling.normalise(label) == label for label in spellings):
        return files, ()
    files = [
        dataclasses.replace(file, labels=tuple(dict.fromkeys(map(spelling.normalise, file.labels)))) for file in files
    ]
    return files, spelling.joined_note(spellings, "class", "classes")


class FileBytes:
    """The example of file i: its bytes."""

    def __init__(self, paths: Sequence[str]):
        self.paths = paths

    def __call__(self, index: int) -> Example:
        return {"image": pathlib.Path(self.paths[index]).read_bytes()}


def _without_bad(
    files: Sequence[LabelledFile], facts: Sequence[FileFacts], data: Data
) -> tuple[list[LabelledFile], list[FileFacts], list[str]]:
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


def _stated_splits(files: Sequence[LabelledFile]) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for row, file in enumerate(files):
        rows.setdefault(file.split, []).append(row)
    order = [name for name in SPLIT_NAMES if name in rows] + sorted(rows.keys() - set(SPLIT_NAMES))
    return {name: np.array(rows[name]) for name in order}


def _carved_splits(
    files: Sequence[LabelledFile],
    data: Data,
    units: np.ndarray,
    conflicts: Sequence[tuple[int, int]],
    multi_label: bool,
) -> dict[str, np.ndarray]:
    fraction = data.validation_fraction
    if not fraction:
        return {"train": np.arange(len(files))}
    contradictory = set(units[[row for row, _ in conflicts]].tolist())
    sizes: collections.Counter[str] = collections.Counter()
    groups: dict[str, list[int]] = {}
    for row, file in enumerate(files):
        group = "" if multi_label else file.labels[0]
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


def sorted_classes(names: Iterable[str]) -> tuple[str, ...]:
    """By number where every name is one (2 before 10), else by text."""
    unique = set(names)
    numbers = all(literals.counted(name.removeprefix("-")) is not None for name in unique)
    return tuple(sorted(unique, key=lambda name: (int(name), name))) if numbers else tuple(sorted(unique))


def _classes(files: Sequence[LabelledFile], splits: Mapping[str, np.ndarray], data: Data) -> tuple[str, ...]:
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


def _label_array(files: Sequence[LabelledFile], classes: tuple[str, ...], multi_label: bool) -> Labels:
    number = {name: index for index, name in enumerate(classes)}
    if not multi_label:
        return np.array([number[file.labels[0]] for file in files], np.int32)
    labels = np.zeros((len(files), len(classes)), np.float32)
    for row, file in enumerate(files):
        labels[row, [number[label] for label in file.labels]] = 1
    return labels
