"""Error rates by edit distance, of whole corpora: all edits over the length of all references."""

from collections.abc import Sequence

import numpy as np


def error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Insertions, deletions and substitutions of what spaces divide (words, phonemes) that make the predictions from
    the references, over how many of these there are; it can be above 1. Of several references the one with the fewest
    edits counts, the longest of those.

    What is said where nothing was wanted counts among the edits and adds nothing to the length. Where all references
    are empty no rate is defined: it is 1 if anything is said, and 0 if not.
    """
    edits = length = 0
    for prediction, right in zip(predictions, references, strict=True):
        said = prediction.split()
        best = min((distance(said, one.split()), -len(one.split())) for one in right)
        edits, length = edits + best[0], length - best[1]
    return edits / length if length else float(edits > 0)


def distance(said: Sequence[str], wanted: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions between two sequences (Levenshtein 1966)."""
    right, places = np.array(list(wanted), object), np.arange(len(wanted) + 1)
    row = places
    for number, one in enumerate(said, 1):
        # one more said, or another: then each place may be reached from the one before by leaving a wanted one out
        reached = np.concatenate([[number], np.minimum(row[1:] + 1, row[:-1] + (right != one))])
        row = np.minimum.accumulate(reached - places) + places
    return int(row[-1])
