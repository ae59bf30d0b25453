"""What labels may be: text or a whole number, which name a class, or a number to predict. What is wrong with others is
said when data are opened, not when their row comes up.
"""

import json
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from vitzoo import literals, spelling
from vitzoo.data.text.lines import HALF, is_whole
from vitzoo.errors import UserError
from vitzoo.strict_json import JSON

LARGEST = float(np.finfo(np.float32).max)
ALIKE = "all are text, all numbers or all booleans"
SHOWN = 40  # characters of a label in a message


def class_name(label: JSON) -> str:
    """The class that a label names: 1, 1.0 and "1" are one, true and false are `true` and `false`, and spellings of
    text that look alike are one.

    Raises:
        ValueError: it is neither text, nor a whole number, nor a boolean.
    """
    if isinstance(label, str):
        if not label.strip():
            raise ValueError(f"the label {_shown(label)} is empty")
        return spelling.normalise(label)
    if isinstance(label, bool):
        return str(label).lower()
    whole = whole_number(label)
    if whole is None:
        also = " (numbers to predict: data.regression)" if isinstance(label, float) else ""
        raise ValueError(f"the label {_shown(label)} is neither text nor a whole number{also}")
    return str(whole)


def whole_number(value: JSON) -> int | None:
    """A whole number as an int, whether it is written 1 or 1.0; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def number(label: JSON, written: bool = False) -> float:
    """A label to predict.

    Args:
        written: it is text, as in a CSV file.

    Raises:
        ValueError: it is no number, or none that float32 holds.
    """
    if written and isinstance(label, str) and (value := literals.number(label)) is not None:
        label = value
    if not isinstance(label, int | float) or isinstance(label, bool) or not abs(label) <= LARGEST:  # true of NaN too
        raise ValueError(f"the label {_shown(label)} is no finite number, which data.regression asks for")
    return float(label)


def sorted_classes(names: Iterable[str]) -> tuple[str, ...]:
    """By number where every name is one (2 before 10), else by text."""
    unique = set(names)
    numbers = all(literals.counted(name.removeprefix("-")) is not None for name in unique)
    return tuple(sorted(unique, key=lambda name: (int(name), name))) if numbers else tuple(sorted(unique))


class ClassNames:
    """The names of classes of one record after another, whose labels are all text, all numbers or all booleans."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self.spellings: set[str] = set()

    def __call__(self, labels: Iterable[JSON]) -> list[str]:
        """The names of a record's labels.

        Raises:
            ValueError: one of them is no label, or of another kind than those before.
        """
        labels = list(labels)
        found = [class_name(label) for label in labels]
        kind = self.kind
        for label in labels:
            own = _kind(label)
            if kind not in (None, own):
                raise ValueError(f"the label {_shown(label)} is {own}, and an earlier one {kind}; {ALIKE}")
            kind = own
        self.kind = kind
        self.spellings.update(label for label in labels if isinstance(label, str))
        return found


def _kind(label: JSON) -> str:
    return "text" if isinstance(label, str) else "a boolean" if isinstance(label, bool) else "a number"


def _shown(label: JSON) -> str:
    return json.dumps(label)[:SHOWN]


UNLABELLED = -1
"""The label of every example of a split whose labels are withheld, as in TFDS's test splits."""


def is_unlabelled(
    name: str,
    classes: Sequence[str] | None,
    labels: np.ndarray,
    where: Callable[[int], str],
    rows: Sequence[int] = (),
    what: str = "label",
) -> bool:
    """Whether a split has no labels: all are -1.

    Args:
        name: of the data.
        classes: their names; None where labels are no classes, but finite numbers.
        labels: of examples of the split, [examples], or [examples, classes] where one may have several.
        where: where example i of the split comes from.
        rows: which examples these are; all, in their order, by default.
        what: a label is called.

    Raises:
        UserError: some labels are no classes, or of several neither 0 nor 1: the first such row, its label and what
            would be right.
    """
    if not len(labels):
        return False
    several, wanted = labels.ndim == 2, "class numbers [examples], or 0 and 1 [examples, classes]"
    if labels.ndim not in (1, 2) or not (np.issubdtype(labels.dtype, np.number) or labels.dtype == bool):
        raise UserError(
            "data.name", name, f"has {what}s of {labels.dtype} and shape {labels.shape}; wanted are {wanted}"
        )
    if several and classes is not None and labels.shape[1] != len(classes):
        raise UserError("data.name", name, f"has labels of {labels.shape[1]} classes, and names {len(classes)}")
    if several and (labels == UNLABELLED).all():
        return True
    if several or classes is None:
        bad = (labels != 0) & (labels != 1) if several else ~np.isfinite(labels)
        if bad.any():
            place = tuple(np.argwhere(bad)[0].tolist())
            row = int(rows[place[0]]) if len(rows) else place[0]
            right = "0 or 1 for each class; without labels (-1) is a whole split or none of it"
            right = right if several else "a finite number"
            raise UserError("data.name", name, f"{where(row)} has the {what} {labels[place]}; wanted is {right}")
        return False
    if not (np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool):
        raise UserError("data.name", name, f"has {what}s of {labels.dtype}; numbers of classes are integers")
    outside = (labels < 0) | (labels >= len(classes))
    if not outside.any():
        return False
    if (labels == UNLABELLED).all():
        return True
    first = int(np.flatnonzero(outside)[0])
    label, row = int(labels[first]), int(rows[first]) if len(rows) else first
    last = f"there are {len(classes)} classes, 0 to {len(classes) - 1}"
    also = "; without labels (-1) is a whole split or none of it" if label == UNLABELLED else ""
    raise UserError("data.name", name, f"{where(row)} has the {what} {label}; {last}{also}")


def class_names(name: str, classes: Sequence[str]) -> tuple[str, ...]:
    """The names of classes as they are compared and kept.

    Args:
        name: of the data.
        classes: as they are written.

    Raises:
        UserError: one is no text, or none that can be written as UTF-8, or two look alike.
    """
    if isinstance(classes, str) or not all(isinstance(one, str) for one in classes):
        raise UserError("data.name", name, f"names the classes {classes!r}; wanted is a list of texts")
    for one in classes:
        if not is_whole(one):
            message = f"has a class {one!a}, which {HALF}; rename its folder, or write it as UTF-8"
            raise UserError("data.name", name, message)
    for written in spelling.positions(classes).values():
        if len(written) > 1:
            which = " and ".join(f"{number} ({classes[number]!a})" for number in written)
            raise UserError("data.name", name, f"has one name for the classes {which}; each class has its own")
    return tuple(map(spelling.normalise, classes))
