"""Exact match and token F1 as SQuAD's script counts them (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250):
lower case, without punctuation, articles and repeated spaces; of several references the best counts. 0 to 1.
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


def f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """F-measure of the words that a prediction and its reference share, averaged over examples."""
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([max(token_f1(prediction, one) for one in right) for prediction, right in pairs]))


def token_f1(prediction: str, reference: str) -> float:
    """Of one prediction; where either is empty, whether both are."""
    said, wanted = normal(prediction).split(), normal(reference).split()
    if not said or not wanted:
        return float(said == wanted)
    return f_measure((collections.Counter(said) & collections.Counter(wanted)).total(), len(said), len(wanted))
