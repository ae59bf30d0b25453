"""ROUGE (Lin 2004), as the library rouge-score counts it, without stemming: words are runs of a-z and 0-9, lowered.

Each is the F-measure of what a prediction and its reference share, averaged over examples; of several references the
best counts. 0 to 1.
"""

import collections
import re
from collections.abc import Callable, Sequence

import numpy as np

_OTHER = re.compile(r"[^a-z0-9]+")


def words(text: str) -> list[str]:
    """The words that are compared."""
    return _OTHER.sub(" ", text.lower()).split()


def rouge(kind: str, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """`rouge1`, `rouge2` (shared words, shared pairs of words) or `rougeL` (the longest common subsequence)."""
    shared = {"rouge1": _shared_grams(1), "rouge2": _shared_grams(2), "rougeL": _shared_sequence}[kind]
    best = [
        max(f_measure(*shared(words(prediction), words(one))) for one in right)
        for prediction, right in zip(predictions, references, strict=True)
    ]
    return float(np.mean(best))


def f_measure(shared: int, predicted: int, wanted: int) -> float:
    """The harmonic mean of the shares of a prediction and of its reference that both have; 0 where there are none."""
    return 2 * shared / (predicted + wanted) if shared else 0.0


def _shared_grams(size: int) -> Callable[[list[str], list[str]], tuple[int, int, int]]:
    def grams(text: list[str]) -> collections.Counter:
        return collections.Counter(zip(*(text[start:] for start in range(size)), strict=False))

    def shared(prediction: list[str], reference: list[str]) -> tuple[int, int, int]:
        said, wanted = grams(prediction), grams(reference)
        return (said & wanted).total(), said.total(), wanted.total()

    return shared


def _shared_sequence(prediction: list[str], reference: list[str]) -> tuple[int, int, int]:
    wanted = np.array(reference, object)
    longest = np.zeros(len(reference) + 1, int)
    for word in prediction:  # a row of the table at a time: longest[j] is of the words so far and the first j wanted
        longest[1:] = np.maximum.accumulate(np.maximum(longest[1:], longest[:-1] + (wanted == word)))
    return int(longest[-1]), len(prediction), len(reference)
