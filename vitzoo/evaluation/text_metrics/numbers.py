"""Predictions that are numbers, as T5 says the likeness of STS-B."""

from collections.abc import Sequence

import numpy as np

NO_NUMBER = -1.0
"""What a prediction that is no number counts as (Raffel et al. 2020, https://arxiv.org/abs/1910.10683: any other answer
is wrong); the numbers that are asked for are 0 to 5."""


def pearson(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Pearson's correlation with the first references; NaN where one of the two doesn't vary."""
    from vitzoo.evaluation.text_regression import correlation

    return correlation(*_values(predictions, references))


def spearman(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Spearman's correlation with the first references; NaN where one of the two doesn't vary."""
    from vitzoo.evaluation.text_regression import correlation, ranks

    return correlation(*map(ranks, _values(predictions, references)))


def _values(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    said = np.array([_number(prediction) for prediction in predictions])
    return said, np.array([_number(right[0]) for right in references])


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return NO_NUMBER
    return value if np.isfinite(value) else NO_NUMBER
