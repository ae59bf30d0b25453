"""What every kind of data gives: examples by position, and a description of them."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from vitzoo.data import splits
from vitzoo.data.sources.labels import class_names, is_unlabelled
from vitzoo.data.sources.own import lacking
from vitzoo.errors import UserError
from vitzoo.streams import on_one_line

NAMED = 4  # classes that a note lists
Labels = np.ndarray  # int32 [examples], or float32 [examples, classes] where an image may have several labels
Example = dict[str, Any]
"""One example as it is stored, by field."""

_KINDS = {"image": "image", "tags": "tags", "words": "words", "turns": "turns", "choices": "texts"}
_KINDS |= {"answers": "texts", "answer": "number", "references": "texts"}
NOT_TEXT = ("label", "tags", "answer")
"""Fields that are no input themselves, but what is to be said of it."""
TEXTS = ("text", "texts", "turns", "words")
"""Kinds of fields that hold text."""


def kinds_of(fields: Iterable[str], label: str = "label") -> dict[str, str]:
    """The kind of each of the fields that have the usual names; any other one is a text.

    Args:
        label: that of a label: `label` (one class), `labels` (several classes, each 0 or 1), `number` (to predict).
    """
    return {field: label if field == "label" else _KINDS.get(field, "text") for field in fields}


def holds(fields: Mapping[str, str], what: str) -> bool:
    """Whether there is a field of images (`image`), or of texts (`text`)."""
    return bool({what} & {*fields.values()}) if what != "text" else bool({*TEXTS} & {*fields.values()})


def no_labels() -> np.ndarray:
    """Of data without labels. Named, so that a description travels to a worker process."""
    return np.zeros(0, np.int32)


@dataclasses.dataclass(frozen=True)
class SourceInfo:
    """What is known of a source before any image is read for training.

    `image_shape` is (height, width) where all images have one size. `channels` is 1 where all are grey, else 3; 0 of
    text. `labels_at_hand` says that no examples are read for `labels`. `unlabelled` says that every label is -1, as in
    TFDS's test splits whose labels are withheld. `fingerprint` changes when the examples, their order, their labels or
    the class names change, not when they move.
    """

    name: str
    split: str
    n: int
    fingerprint: str
    classes: tuple[str, ...] | None = None
    channels: int = 0
    image_shape: tuple[int, int] | None = None
    multi_label: bool = False
    files: Sequence[str] | None = dataclasses.field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    unlabelled: bool = False
    labels_at_hand: bool = True
    labels: Callable[[], Labels] = dataclasses.field(default=no_labels, repr=False, compare=False)

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


def refuse_unlabelled(info: SourceInfo) -> None:
    """Refuses data without labels where they are needed."""
    if info.unlabelled:
        message = f"is unlabelled in {info.name} (all labels are -1): nothing is learnt from it or measured on it"
        raise UserError("data.split", info.split, f"{message}; vitzoo predict takes such images and texts")


class Source(Protocol):
    """Random access to the examples of one split.

    `source[i]` is a dict of the fields that `fields` lists, each with its kind. Its id, `ids[i]`, is the same in every
    slice of the dataset and differs between its splits. The usual fields are

    - image: bytes of a file, a PIL image or an array [H, W] or [H, W, C]; and label, an int that indexes
      `info.classes`, or float32 [classes] of 0 and 1 where an image may have several
    - text; and label (an int that indexes `info.classes`, or a float), where there are labels
    - prompt, completion
    - turns: a list of {"role", "text"}
    - source, target
    - first, second; and label
    - words, tags: lists of one length; tags index `info.classes`
    - question, choices (a list), answer (the index of the right one)
    - question, answers (a list, all right); and passage, in which they stand
    """

    info: SourceInfo
    ids: np.ndarray

    @property
    def fields(self) -> Mapping[str, str]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Example: ...

    def where(self, index: int) -> str:
        """The file or record that example `index` comes from, for messages."""
        ...


class Dataset(Protocol):
    """A kind of data, made from the `Data` section of a config. A user's own is a class of this shape, or a
    function that gives such an object: `from_arrays(...)`, a `Table`.
    """

    def open(self, split: str) -> Source:
        """The examples of a split expression; `vitzoo.data.splits.parse` understands it."""
        ...

    def counts(self) -> Mapping[str, int]:
        """The named splits and how many examples each has."""
        ...


@dataclasses.dataclass(frozen=True)
class Table:
    """All examples of a dataset, and which of them each split holds.

    `fields` has the kind of each field; of names alone the usual kinds are taken. `read(i)` gives example i; where
    `labels` are known, int32 or float32 [examples] or float32 [examples, classes], it needn't give its `label`.
    `checksums` [examples] are of the examples' contents; `contents` are the same for examples of equal inputs and for
    no others, where that is known; by default those checksums that have 64 bits. `where(i)` says where example i comes
    from; by default its file, else its number.

    Of images, `channels` is 1 where all are grey, else 3, and `image_shape` (height, width) where all have one size.

    `unusable` says why labels that are there are no field: what needs none goes on without them. `checked` says that
    what `read` gives for labels and tags is known to be classes; else, without `labels`, every example is read when a
    split is opened.
    """

    name: str
    fields: Mapping[str, str]
    splits: Mapping[str, np.ndarray]
    checksums: np.ndarray
    read: Callable[[int], Example]
    where: Callable[[int], str] | None = None
    classes: tuple[str, ...] | None = None
    labels: Labels | None = None
    notes: tuple[str, ...] = ()
    unusable: UserError | None = None
    checked: bool = False
    contents: np.ndarray | None = None
    channels: int = 0
    image_shape: tuple[int, int] | None = None
    files: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.fields, Mapping):
            of_one = "label" if self.classes is not None else "number"
            several = self.labels is not None and self.labels.ndim == 2
            object.__setattr__(self, "fields", kinds_of(self.fields, "labels" if several else of_one))
        if self.classes is not None:
            object.__setattr__(self, "classes", class_names(self.name, self.classes))
        if other := [split for split in self.splits if not isinstance(split, str)]:
            message = f"names a split {other[0]!r} ({type(other[0]).__name__}); wanted is text, 'train'"
            raise UserError("data.name", self.name, message)
        if self.contents is None and self.checksums.dtype.itemsize == 8:
            object.__setattr__(self, "contents", self.checksums)

    def open(self, split: str) -> "TableSource":
        return TableSource(self, split, rows_of(split, self.splits))

    def counts(self) -> Mapping[str, int]:
        return {name: len(rows) for name, rows in self.splits.items()}


class TableSource:
    """Some rows of a table."""

    def __init__(self, table: Table, split: str, rows: np.ndarray):
        self.table, self.fields, self.ids = table, table.fields, rows.astype(np.int64)
        self.unusable = table.unusable
        parts: list[Any] = [split, tuple(table.fields), table.classes, table.checksums[rows]]
        if table.labels is None:
            unlabelled = not table.checked and self._says_no_classes()
        else:
            refuse_too_few(table.name, split, rows, table.labels)
            unlabelled = is_unlabelled(table.name, table.classes, table.labels[rows], self.where)
            parts.append(table.labels[rows])
        self.info = SourceInfo(
            name=table.name,
            split=split,
            n=len(rows),
            classes=table.classes,
            channels=table.channels,
            image_shape=table.image_shape,
            multi_label=table.labels is not None and table.labels.ndim == 2,
            fingerprint=fingerprint(*parts),
            files=None if table.files is None else [table.files[row] for row in rows],
            notes=(*table.notes, *classes_cut_off(split, table.classes, table.labels, table.splits)),
            unlabelled=unlabelled,
            labels=no_labels if table.labels is None else self.labels,
        )

    def _says_no_classes(self) -> bool:
        """Whether labels or tags that only reading gives are -1 throughout; others must be classes."""
        field = next((one for one in ("tags", "label") if one in self.fields), None)
        if field is None or (field == "label" and self.table.classes is None):
            return False
        name, what = self.table.name, "tag" if field == "tags" else field
        if self.table.classes is None:
            raise UserError("data.name", name, "has tags, and names no classes of them")
        found: list[int] = []
        rows: list[int] = []
        for index in range(len(self)):
            example = self[index]
            if problem := lacking(example, self.fields):
                raise UserError("data.name", name, f"gives {problem} (example {index})")
            several = list(example[field]) if field == "tags" else [example[field]]
            if other := [one for one in several if not isinstance(one, int | np.integer)]:
                message = f"{self.where(index)} has the {what} {other[0]!r}; wanted is the number of a class"
                raise UserError("data.name", name, message)
            if field == "tags" and len(several) != len(example["words"]):
                message = f"{self.where(index)} has {len(several)} tags of {len(example['words'])} words"
                raise UserError("data.name", name, message)
            found += map(int, several)
            rows += [index] * len(several)
        return is_unlabelled(name, self.table.classes, np.array(found, np.int64), self.where, rows, what)

    @property
    def contents(self) -> np.ndarray | None:
        """A number for each example, the same for equal ones; None where it isn't known."""
        return None if self.table.contents is None else self.table.contents[self.ids]

    def labels(self) -> Labels:
        assert self.table.labels is not None
        return self.table.labels[self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Example:
        row = int(self.ids[index])
        example, labels = self.table.read(row), self.table.labels
        if labels is None or not isinstance(example, Mapping) or "label" in example:
            return example
        return {**example, "label": labels[row]}

    def where(self, index: int) -> str:
        row = int(self.ids[index])
        if self.table.where is not None:
            return self.table.where(row)
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
    some = ", ".join(on_one_line(classes[number]) for number in cut[:NAMED]) + (", ..." if len(cut) > NAMED else "")
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
