"""The evaluator of frozen features by their nearest neighbours."""

import dataclasses
from collections.abc import Callable

import numpy as np

from vitzoo.evaluation.frozen.features import Examples, FrozenEvaluator, by_number, check_some
from vitzoo.schema import setting

KS = (10, 20, 100, 200)
ENTRIES = 2**26  # similarities held at once: 512 MiB


@dataclasses.dataclass(frozen=True)
class KNNEvaluator(FrozenEvaluator):
    """The vote of the k most similar training examples, as DINO counts it (Caron et al. 2021,
    https://arxiv.org/abs/2104.14294): similarity is the cosine of the features, and each neighbour votes for its class
    with exp(similarity / temperature). Where there are fewer than k, all of them vote. Of equally similar examples the
    earlier one is nearer; of classes with equal votes the lower one wins.
    """

    k: tuple[int, ...] = setting(KS, "numbers of neighbours", minimum=1, execution=True)  # type: ignore[assignment]
    temperature: float = setting(0.07, "of the votes", above=0.0, execution=True)

    @property
    def BETTER(self) -> dict[str, Callable]:  # type: ignore[override]
        return by_number("accuracy_k", self.k)

    def check(self) -> None:
        super().check()
        check_some("k", self.k)

    def measure(self, train: Examples, test: Examples, classes: int) -> dict[str, float]:
        known, asked = normalised(train.features), normalised(test.features)
        right = dict.fromkeys(self.k, 0)
        block = max(1, ENTRIES // len(known))
        for start in range(0, len(asked), block):
            similar = asked[start : start + block] @ known.T
            label = test.label[start : start + block]
            for k, said in votes(similar, train.label, classes, self.k, self.temperature).items():
                right[k] += int((said == label).sum())
        return {f"accuracy_k{k}": count / len(test) for k, count in right.items()}


def normalised(features: np.ndarray) -> np.ndarray:
    """Features [n, width] of length 1; what has no length stays 0."""
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(lengths > 0, lengths, 1)


def votes(
    similar: np.ndarray, label: np.ndarray, classes: int, ks: tuple[int, ...], temperature: float
) -> dict[int, np.ndarray]:
    """The class that the neighbours choose, int [n], for each number of them.

    Args:
        similar: of each example to each known one, [n, known].
        label: of the known ones, int [known].
        classes: how many there are.
        ks: numbers of neighbours.
        temperature: of their votes.
    """
    nearest = _nearest(similar, min(max(ks), similar.shape[1]))
    found = np.take_along_axis(similar, nearest, 1)
    with np.errstate(over="ignore"):
        weight = np.exp((found - found[:, :1]) / temperature)  # of the nearest 1: not all vanish, and none overflows
    chosen, rows = label[nearest], np.arange(len(similar))[:, None]
    said = {}
    for k in ks:
        counted = np.zeros((len(similar), classes))
        np.add.at(counted, (rows, chosen[:, :k]), weight[:, :k])
        said[k] = counted.argmax(1)
    return said


def _nearest(similar: np.ndarray, k: int) -> np.ndarray:
    """The k largest of each row by falling value, int [n, k]; of equals the lower index."""
    count = similar.shape[1]
    if k == count:
        return np.argsort(-similar, axis=1, kind="stable")
    bound = np.partition(similar, count - k, axis=1)[:, count - k]
    found = np.empty((len(similar), k), np.int64)
    for row, (values, least) in enumerate(zip(similar, bound, strict=True)):
        above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
        among = np.concatenate([above, equal[: k - len(above)]])
        found[row] = among[np.lexsort((among, -values[among]))]
    return found
