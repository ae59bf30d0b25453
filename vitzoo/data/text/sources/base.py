"""What every kind of text data gives: examples of named fields by position, and a description of them."""

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from vitzoo.data.duplicates import hold_out, numbered
from vitzoo.data.sources.base import SourceInfo, classes_cut_off, fingerprint, refuse_too_few, rows_of
from vitzoo.data.sources.label_check import class_names, is_unlabelled
from vitzoo.errors import UserError

SPLIT_SEED = 0
NOT_TEXT = ("label", "tags", "answer")
"""Fields that are no text themselves, but what is to be said of it."""


class TextSource(Protocol):
    """Random access to the examples of one split. `source[i]` is a dict of the fields that `fields` lists:

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
    fields: tuple[str, ...]
    ids: np.ndarray

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> dict[str, Any]: ...

    def where(self, index: int) -> str:
        """The file and line or record that example `index` comes from, for messages."""
        ...


class TextDataset(Protocol):
    """All splits of a kind of text data. A user's own is a class of this shape, made from the `Data` section."""

    def open(self, split: str) -> TextSource: ...

    def counts(self) -> Mapping[str, int]: ...


class Texts:
    """One field of a source as an iterable of strings that can be gone through again (to train a tokenizer)."""

    def __init__(self, source: TextSource, fields: Sequence[str] = ("text",)):
        self.source, self.fields = source, fields

    def __iter__(self) -> Iterator[str]:
        for index in range(len(self.source)):
            example = self.source[index]
            for field in self.fields:
                yield from strings(example[field])


def all_text(source: TextSource) -> Texts:
    """Every string of every example."""
    return Texts(source, [field for field in source.fields if field not in NOT_TEXT])


def strings(value: Any) -> list[str]:
    """The strings of a field: itself, a list's, or those of turns."""
    if isinstance(value, str):
        return [value]
    return [item if isinstance(item, str) else item["text"] for item in value]


def require(source: TextSource, *fields: str, what: str) -> None:
    """Refuses a source without these fields."""
    if not set(fields) <= set(source.fields):
        refuse_unusable(source)
        raise UserError(
            "data.name",
            source.info.name,
            f"{what} needs the fields {', '.join(fields)}; this data has {', '.join(source.fields)}",
        )


def refuse_unusable(source: TextSource) -> None:
    """Where labels are wanted: refuses a source that has some which name no classes, and says which."""
    if (refusal := getattr(source, "unusable", None)) is not None:
        raise refusal


@dataclasses.dataclass(frozen=True)
class TextTable:
    """All examples of a dataset and which of them each split holds.

    `read(i)` gives example i; `checksums` are of the examples' contents; `labels` int32 or float32 [examples], or None.
    `unusable` says why labels that are there are no field: what needs none goes on without them. `checked` says that
    what `read` gives for labels and tags is known to be classes; else every example is read when a split is opened.
    `contents` [examples] are the same for examples of equal inputs; by default those of equal checksums.
    """

    name: str
    fields: tuple[str, ...]
    splits: Mapping[str, np.ndarray]
    checksums: np.ndarray
    read: Callable[[int], dict[str, Any]]
    where: Callable[[int], str]
    classes: tuple[str, ...] | None = None
    labels: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    unusable: UserError | None = None
    checked: bool = False
    contents: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.classes is not None:
            object.__setattr__(self, "classes", class_names(self.name, self.classes))

    def open(self, split: str) -> "TextTableSource":
        return TextTableSource(self, split, rows_of(split, self.splits))

    def counts(self) -> Mapping[str, int]:
        return {name: len(rows) for name, rows in self.splits.items()}


class TextTableSource:
    """Some rows of a table."""

    def __init__(self, table: TextTable, split: str, rows: np.ndarray):
        self.table, self.fields, self.ids = table, table.fields, rows.astype(np.int64)
        self.unusable = table.unusable
        if table.labels is not None:
            refuse_too_few(table.name, split, rows, table.labels)
        labels = None if table.labels is None else table.labels[rows]
        if labels is None:
            unlabelled = not table.checked and self._says_no_classes()
        else:
            unlabelled = is_unlabelled(table.name, table.classes, labels, self.where)
        parts: list[Any] = [split, table.fields, table.classes, table.checksums[rows]]
        if labels is not None:
            parts.append(labels)
        self.info = text_info(
            table.name, split, len(rows), fingerprint(*parts), table.classes,
            (*table.notes, *classes_cut_off(split, table.classes, table.labels, table.splits)),
            None if table.labels is None else self.labels, unlabelled,
        )  # fmt: skip

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
    def contents(self) -> np.ndarray:
        """A number for each example, the same for equal ones."""
        table = self.table
        return (table.checksums if table.contents is None else table.contents)[self.ids]

    def labels(self) -> np.ndarray:
        assert self.table.labels is not None
        return self.table.labels[self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.table.read(int(self.ids[index]))

    def where(self, index: int) -> str:
        return self.table.where(int(self.ids[index]))


def text_info(
    name: str,
    split: str,
    count: int,
    mark: str,
    classes: tuple[str, ...] | None = None,
    notes: Sequence[str] = (),
    labels: Callable[[], np.ndarray] | None = None,
    unlabelled: bool = False,
) -> SourceInfo:
    """A description of text: of the fields that speak of images, `channels` is 0."""
    return SourceInfo(
        name=name, split=split, n=count, classes=classes, channels=0, image_shape=None, multi_label=False,
        fingerprint=mark, notes=tuple(notes), labels=labels or no_labels, unlabelled=unlabelled,
    )  # fmt: skip


def no_labels() -> np.ndarray:
    """Of text without labels. Named, so that a description travels to a worker process."""
    return np.zeros(0, np.int32)


def carved(keys: np.ndarray, fraction: float) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Train and validation of data that states no splits: a fixed permutation, each part in the data's order; and a
    note that says so. At least one example is validation, and one train; equal examples are in one part.

    Args:
        keys: of every example, the same for equal ones (of their inputs, labels aside).
        fraction: of the examples, to be validation.
    """
    count = len(keys)
    if fraction == 0 or count < 2:
        return {"train": np.arange(count)}, ()
    ranked = np.random.RandomState(SPLIT_SEED).permutation(count)
    chosen = hold_out(ranked, numbered(keys), min(max(1, round(count * fraction)), count - 1))
    if not len(chosen):
        return {"train": np.arange(count)}, ("there is no validation: all examples are the same",)
    held = np.zeros(count, bool)
    held[chosen] = True
    note = f"validation is {len(chosen):,} of {count:,} examples, by a fixed permutation (data.validation_fraction)"
    return {"train": np.flatnonzero(~held), "validation": np.flatnonzero(held)}, (note,)


def checksum(content: bytes) -> int:
    """64 bits of a content: two cyclic sums, of it and of its length with its ends swapped."""
    half = len(content) // 2
    return zlib.crc32(content) << 32 | zlib.crc32(content[half:] + content[:half], len(content) & 0xFFFFFFFF)
