"""Predictions that name a class."""

from collections.abc import Sequence

import numpy as np


def accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Share of predictions that are one of their references, but for spaces around them."""
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([prediction.strip() in {one.strip() for one in right} for prediction, right in pairs]))


def macro_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean over classes of their F1. The classes are the first references; a prediction that names none of them is
    wrong, and no class of its own."""
    said = np.array([prediction.strip() for prediction in predictions], object)
    wanted = np.array([right[0].strip() for right in references], object)
    names = dict.fromkeys(wanted)
    each = [
        2 * ((said == name) & (wanted == name)).sum() / ((said == name).sum() + (wanted == name).sum())
        for name in names
    ]
    return float(np.mean(each))
