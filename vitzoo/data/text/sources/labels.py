"""What the label of a record may be: text or a whole number, which name a class, or a number to predict."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from vitzoo import spelling

LARGEST = float(np.finfo(np.float32).max)
SHOWN = 40  # characters of a label in a message


def class_name(label: Any) -> str:
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


def whole_number(value: Any) -> int | None:
    """A whole number as an int, whether it is written 1 or 1.0; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def number(label: Any) -> float:
    """A label to predict.

    Raises:
        ValueError: it is no number, or none that float32 holds.
    """
    is_number = isinstance(label, int | float) and not isinstance(label, bool)
    if not is_number or not abs(label) <= LARGEST:  # false of NaN too
        raise ValueError(f"the label {_shown(label)} is no finite number, which data.regression asks for")
    return float(label)


class ClassNames:
    """The names of classes of one record after another; booleans are only taken where all labels are booleans."""

    def __init__(self) -> None:
        self.booleans: bool | None = None
        self.spellings: set[str] = set()

    def __call__(self, labels: Iterable[Any]) -> list[str]:
        """The names of a record's labels.

        Raises:
            ValueError: one of them is no label.
        """
        labels = list(labels)
        found = [class_name(label) for label in labels]
        kinds = {isinstance(label, bool) for label in labels}
        if len(kinds | ({self.booleans} - {None})) > 1:
            raise ValueError(f"the label {_shown(labels[0])}: booleans and others don't go together as labels")
        self.booleans = next(iter(kinds), self.booleans)
        self.spellings.update(label for label in labels if isinstance(label, str))
        return found


def _shown(label: Any) -> str:
    return json.dumps(label)[:SHOWN]
