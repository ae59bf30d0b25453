"""What every kind of data gives: examples by position, and a description of them."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict

import numpy as np

from vitzoo.data import splits
from vitzoo.data.sources.label_check import class_names, is_unlabelled
from vitzoo.errors import UserError

NAMED = 4  # classes that a note lists
Labels = np.ndarray  # int32 [examples], or float32 [examples, classes] where an image may have several labels


class Example(TypedDict):
    """One example as it is stored: `image` is bytes of a file, a PIL image or an array [H, W] or [H, W, C]."""

    image: Any
    label: Any
    id: int


@dataclasses.dataclass(frozen=True)
class SourceInfo:
    """What is known of a source before any image is read for training.

    `image_shape` is (height, width) where all images have one size. `channels` is 1 where all are grey, else 3.
    `labels_at_hand` says that no examples are read for `labels`. `unlabelled` says that every label is -1, as in TFDS's
    test splits whose labels are withheld. `fingerprint` changes when the examples, their order, their labels or the
    class names change, not when they move.
    """

    name: str
    split: str
    n: int
    classes: tuple[str, ...] | None
    channels: int
    image_shape: tuple[int, int] | None
    multi_label: bool
    fingerprint: str
    files: Sequence[str] | None = dataclasses.field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    unlabelled: bool = False
    labels_at_hand: bool = True
    labels: Callable[[], Labels] = dataclasses.field(default=lambda: np.zeros(0, np.int32), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.classes is not None:
            object.__setattr__(self, "classes", class_names(self.name, self.classes))

    @functools.cached_property
    def class_counts(self) -> tuple[int, ...] | None:
        """Examples of each class; None without classes or labels. Reads every label at first use: instant but for large
        TFDS datasets.

        Raises:
            UserError: a label lies outside the classes.
        """
        if self.classes is None or self.unlabelled:
            return None
        labels = self.labels()
        if is_unlabelled(self.name, self.classes, labels, lambda row: f"{self.name} {self.split} example {row}"):
            return None
        counts = labels.sum(0) if self.multi_label else np.bincount(labels, minlength=len(self.classes))
        return tuple(int(count) for count in counts)


class Source(Protocol):
    """Random access to the examples of one split. `source[i]` is an `Example`; its id, `ids[i]`, is the same in every
    slice of the dataset and differs between its splits.
    """

    info: SourceInfo
    ids: np.ndarray

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Example: ...

    def where(self, index: int) -> str:
        """The file or record that example `index` comes from, for messages."""
        ...


class Dataset(Protocol):
    """A kind of data, made from the `Data` section of a config. A user's own dataset is a class of this shape."""

    def open(self, split: str) -> Source:
        """The examples of a split expression; `vitzoo.data.splits.parse` understands it."""
        ...

    def counts(self) -> Mapping[str, int]:
        """The named splits and how many examples each has."""
        ...


@dataclasses.dataclass(frozen=True)
class Table:
    """All examples of a dataset whose labels are known at once, and which of them each split holds.

    `checksums` [examples] are of the images' contents; `read(i)` gives image i as stored; `files` their paths;
    `contents` int [examples] the same for equal images and for no others, where that is known.
    """

    name: str
    classes: tuple[str, ...]
    labels: Labels
    checksums: np.ndarray
    splits: Mapping[str, np.ndarray]
    channels: int
    image_shape: tuple[int, int] | None
    read: Callable[[int], Any]
    files: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    contents: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", class_names(self.name, self.classes))

    def open(self, split: str) -> "TableSource":
        return TableSource(self, split, rows_of(split, self.splits))

    def counts(self) -> Mapping[str, int]:
        return {name: len(rows) for name, rows in self.splits.items()}


class TableSource:
    """Some rows of a table."""

    def __init__(self, table: Table, split: str, rows: np.ndarray):
        self.table, self.ids = table, rows.astype(np.int64)
        refuse_too_few(table.name, split, rows, table.labels)
        unlabelled = is_unlabelled(table.name, table.classes, table.labels[rows], self.where)
        self.info = SourceInfo(
            name=table.name,
            split=split,
            n=len(rows),
            classes=table.classes,
            channels=table.channels,
            image_shape=table.image_shape,
            multi_label=table.labels.ndim == 2,
            fingerprint=fingerprint(split, table.classes, table.labels[rows], table.checksums[rows]),
            files=None if table.files is None else [table.files[row] for row in rows],
            notes=(*table.notes, *classes_cut_off(split, table.classes, table.labels, table.splits)),
            unlabelled=unlabelled,
            labels=self.labels,
        )

    @property
    def contents(self) -> np.ndarray | None:
        """A number for each example, the same for equal ones; None where it isn't known."""
        return None if self.table.contents is None else self.table.contents[self.ids]

    def labels(self) -> Labels:
        return self.table.labels[self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Example:
        row = int(self.ids[index])
        return {"image": self.table.read(row), "label": self.table.labels[row], "id": row}

    def where(self, index: int) -> str:
        row = int(self.ids[index])
        return self.table.files[row] if self.table.files is not None else f"{self.table.name} example {row}"


def refuse_too_few(name: str, split: str, rows: np.ndarray, labels: Labels) -> None:
    """Refuses a split that names examples without a label."""
    if len(labels) <= rows.max():
        raise UserError("data.name", name, f"{split} names example {rows.max()}, and there are {len(labels)} labels")


def rows_of(split: str, named: Mapping[str, np.ndarray]) -> np.ndarray:
    """The rows of a split expression, in its order.

    Args:
        split: in TFDS's syntax.
        named: the rows of each split that has a name.
    Raises:
        UserError: see `vitzoo.data.splits.parse`.
    """
    pieces = splits.parse(split, {name: len(rows) for name, rows in named.items()})
    return np.concatenate([named[piece.name][piece.start : piece.stop] for piece in pieces])


def classes_cut_off(
    split: str, classes: Sequence[str] | None, labels: Labels | None, named: Mapping[str, np.ndarray]
) -> list[str]:
    """A note of the classes that a slice has no example of though the splits that it slices have: data often lie class
    by class.

    Args:
        split: in TFDS's syntax.
        classes: their names.
        labels: of all rows.
        named: the rows of each split that has a name.
    """
    if classes is None or labels is None or "[" not in split:
        return []
    pieces = splits.parse(split, {name: len(rows) for name, rows in named.items()})
    there = _classes_of(labels[np.concatenate([named[piece.name] for piece in pieces])])
    cut = sorted(there - _classes_of(labels[rows_of(split, named)]))
    if not cut:
        return []
    some = ", ".join(classes[number] for number in cut[:NAMED]) + (", ..." if len(cut) > NAMED else "")
    return [
        f"warning: {split} has no example of {len(cut)} of the {len(there)} classes ({some}), for a slice takes "
        f"examples in the order in which they are stored"
    ]


def _classes_of(labels: Labels) -> set[int]:
    """Those that have an example."""
    found = np.flatnonzero((labels > 0).any(0)) if labels.ndim == 2 else np.unique(labels[labels >= 0])
    return {int(number) for number in found}


def fingerprint(*parts: Any) -> str:
    """16 hexadecimal digits that depend on every part: arrays by shape and content, all else by its text."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]
