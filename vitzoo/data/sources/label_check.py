"""Labels that name no class are found when data are opened, not when their row comes up."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vitzoo.errors import Refused

UNLABELLED = -1
"""The label of every example of a split whose labels are withheld, as in TFDS's test splits."""


def is_unlabelled(
    name: str, classes: Sequence[str] | None, labels: np.ndarray, where: Callable[[int], str], rows: Sequence[int] = ()
) -> bool:
    """Whether a split has no labels: all are -1.

    Args:
        name: of the data.
        classes: their names; None where labels are no classes.
        labels: of examples of the split, [examples], or [examples, classes] where one may have several.
        where: where example i of the split comes from.
        rows: which examples these are; all, in their order, by default.

    Raises:
        Refused: some labels are no classes: the first such row, its label and how many classes there are.
    """
    if classes is None or not len(labels):
        return False
    if labels.ndim == 2:
        if labels.shape[1] != len(classes):
            raise Refused("data.name", name, f"has labels of {labels.shape[1]} classes, and names {len(classes)}")
        return False
    if not (np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool):
        raise Refused("data.name", name, f"has labels of {labels.dtype}; numbers of classes are integers")
    outside = (labels < 0) | (labels >= len(classes))
    if not outside.any():
        return False
    if (labels == UNLABELLED).all():
        return True
    first = int(np.flatnonzero(outside)[0])
    label, row = int(labels[first]), int(rows[first]) if len(rows) else first
    last = f"there are {len(classes)} classes, 0 to {len(classes) - 1}"
    also = "; without labels (-1) is a whole split or none of it" if label == UNLABELLED else ""
    raise Refused("data.name", name, f"{where(row)} has the label {label}; {last}{also}")


def refuse_unlabelled(info: Any) -> None:
    """Refuses data without labels where they are needed."""
    if info.unlabelled:
        message = f"is unlabelled in {info.name} (all labels are -1): nothing is learnt from it or measured on it"
        raise Refused("data.split", info.split, f"{message}; vitzoo predict takes such images and texts")
