"""Predictions that name a class."""

from collections.abc import Sequence

import numpy as np

from vitzoo.names import normalise


def accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Share of predictions that are one of their references, as names are compared: see `vitzoo.names`."""
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([normalise(prediction) in set(map(normalise, right)) for prediction, right in pairs]))


def macro_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean over classes of their F1, as scikit-learn's: the classes are all first references and all predictions,
    so one that is predicted and never true counts as 0, and so does a text that is no class's name."""
    from sklearn.metrics import f1_score

    said = [normalise(prediction) for prediction in predictions]
    wanted = [normalise(right[0]) for right in references]
    return float(f1_score(wanted, said, average="macro", zero_division=0))
