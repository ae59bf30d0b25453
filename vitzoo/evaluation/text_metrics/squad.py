"""Exact match and token F1 as SQuAD's scripts count them: lower case, without punctuation, articles and repeated
spaces; of several references the best counts. 0 to 1.

The scripts of versions 1.1 (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250) and 2.0
(https://arxiv.org/abs/1806.03822) differ in the F1 of an answer of which nothing is left: 1.1's is 0, 2.0's is 1 where
nothing is left of the reference either, since there "no answer" is one.
"""

import collections
import re
import string
from collections.abc import Sequence

import numpy as np

from vitzoo.evaluation.text_metrics.rouge import f_measure

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal(text: str) -> str:
    """What is compared of a text."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Share of predictions that are one of their references."""
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([any(normal(prediction) == normal(one) for one in right) for prediction, right in pairs]))


def f1(version: int, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """F-measure of the words that a prediction and its reference share, averaged over examples.

    Args:
        version: 1 for the script of SQuAD 1.1, 2 for that of SQuAD 2.0.
        predictions: a text for each example.
        references: for each, one or more.
    """
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([max(token_f1(version, prediction, one) for one in right) for prediction, right in pairs]))


def token_f1(version: int, prediction: str, reference: str) -> float:
    """Of one prediction and one reference."""
    said, wanted = normal(prediction).split(), normal(reference).split()
    if version == 2 and not (said and wanted):
        return float(said == wanted)
    return f_measure((collections.Counter(said) & collections.Counter(wanted)).total(), len(said), len(wanted))
