"""Predictions that name a class."""

from collections.abc import Sequence

import numpy as np


def accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Share of predictions that are one of their references, but for spaces around them."""
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([prediction.strip() in {one.strip() for one in right} for prediction, right in pairs]))


def macro_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean over classes of their F1, as scikit-learn's: the classes are all first references and all predictions,
    so one that is predicted and never true counts as 0, and so does a text that is no class's name."""
    from sklearn.metrics import f1_score

    said = [prediction.strip() for prediction in predictions]
    wanted = [right[0].strip() for right in references]
    return float(f1_score(wanted, said, average="macro", zero_division=0))
