"""The evaluators of frozen features: by their nearest neighbours, and by linear models.

Linear models are least squares on few examples and logistic regression.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from vitzoo.errors import UserError
from vitzoo.evaluation.features import Examples, FrozenEvaluator, by_number, check_some, standardised
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


SHOTS = (1, 5, 10, 25)


@dataclasses.dataclass(frozen=True)
class FewShotEvaluator(FrozenEvaluator):
    """Accuracy of a linear map from features to classes that is solved in closed form, as the ViT paper counts it
    (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929, 3.1), with the constants of big_vision.

    Of every class `shots` examples are drawn (all, where it has fewer). Their features are standardised and joined by
    the constant `bias`; with X [n, width + 1] and targets Y [n, classes] of 1 and -1, W = (XᵀX + l2 I)⁻¹ XᵀY, and the
    largest entry of xW is the prediction. Draw d of seed s is that of `numpy.random.default_rng((s, d))`.
    """

    shots: tuple[int, ...] = setting(SHOTS, "examples of each class", minimum=1, execution=True)  # type: ignore[assignment]
    draws: int = setting(3, "how often they are drawn", minimum=1, execution=True)
    seed: int = setting(0, "of the draws", minimum=0, execution=True)
    l2: float = setting(1024.0, "penalty on the squared weights", above=0.0, execution=True)
    bias: float = setting(100.0, "the constant feature: large, so that its weight is hardly penalised", execution=True)

    @property
    def BETTER(self) -> dict[str, Callable]:  # type: ignore[override]
        return by_number("accuracy_", self.shots, "_shot")

    def check(self) -> None:
        super().check()
        check_some("shots", self.shots)

    def measure(self, train: Examples, test: Examples, classes: int) -> dict[str, float]:
        """`accuracy_5_shot`, the mean over draws, and `accuracy_5_shot_std`, the standard deviation over them
        (of the draws as a sample; 0 of a single one).
        """
        accuracies = np.array([self._draw(draw, train, test, classes) for draw in range(self.draws)])
        mean = accuracies.mean(0)
        std = accuracies.std(0, ddof=1) if self.draws > 1 else np.zeros(len(self.shots))
        found = {}
        for index, shots in enumerate(self.shots):
            found[f"accuracy_{shots}_shot"] = float(mean[index])
            found[f"accuracy_{shots}_shot_std"] = float(std[index])
        return found

    def _draw(self, draw: int, train: Examples, test: Examples, classes: int) -> list[float]:
        order = shuffled_by_class(train.label, classes, (self.seed, draw))
        found = []
        for shots in self.shots:
            chosen = np.concatenate([rows[:shots] for rows in order])
            x, asked = standardised(train.features[chosen], test.features)
            weights = least_squares(_with(x, self.bias), train.label[chosen], classes, self.l2)
            said = (_with(asked, self.bias) @ weights).argmax(1)
            found.append(float((said == test.label).mean()))
        return found


def shuffled_by_class(label: np.ndarray, classes: int, seed: tuple[int, ...]) -> list[np.ndarray]:
    """The examples of each class in a drawn order; fewer shots are the first of more."""
    random = np.random.default_rng(seed)
    return [random.permutation(np.flatnonzero(label == number)) for number in range(classes)]


def least_squares(x: np.ndarray, label: np.ndarray, classes: int, l2: float) -> np.ndarray:
    """The weights [width, classes] of least squares to 1 for an example's class and -1 for the others.

    Args:
        x: features, [n, width].
        label: classes, int [n].
        classes: how many there are.
        l2: penalty on the squared weights.
    """
    y = np.where(label[:, None] == np.arange(classes), 1.0, -1.0)
    if len(x) >= x.shape[1]:
        return np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1]), x.T @ y)
    return x.T @ np.linalg.solve(x @ x.T + l2 * np.eye(len(x)), y)  # the same, by a smaller matrix


def _with(features: np.ndarray, constant: float) -> np.ndarray:
    return np.pad(features, ((0, 0), (0, 1)), constant_values=constant)


PENALTIES = tuple(10.0**power for power in range(-6, 2))


@dataclasses.dataclass(frozen=True)
class LinearProbeEvaluator(FrozenEvaluator):
    """Accuracy of logistic regression on standardised features, by scikit-learn's L-BFGS until it has converged.

    The mean cross-entropy plus penalty/2 · |W|² is made smallest (the bias is free). The penalty is the one with the
    best accuracy on a held-out fraction of the training examples (of equals the largest), and the weights are then
    learned anew from all of them.
    """

    penalties: tuple[float, ...] = setting(PENALTIES, "to choose from", above=0.0, execution=True)  # type: ignore[assignment]
    held_out: float = setting(
        0.2, "fraction of training examples to choose the penalty by", above=0.0, below=1.0, execution=True
    )
    held_out_examples: str = setting(
        "drawn", "which these are: drawn by the seed, or the last ones", choices=("drawn", "last"), execution=True
    )
    seed: int = setting(0, "of that draw", minimum=0, execution=True)
    iterations: int = setting(10_000, "after which it hasn't converged, and is refused", minimum=1, execution=True)

    BETTER: ClassVar[dict[str, Callable]] = {"accuracy": max}

    def check(self) -> None:
        super().check()
        check_some("penalties", self.penalties)

    def measure(self, train: Examples, test: Examples, classes: int) -> dict[str, float]:
        """`accuracy`, and `penalty`, the one that was chosen."""
        self._check_classes(train.label)
        penalty = self.penalties[0] if len(self.penalties) == 1 else self._chosen(train)
        return {"accuracy": self._accuracy(train, test, penalty), "penalty": penalty}

    def _chosen(self, train: Examples) -> float:
        count = min(max(1, round(self.held_out * len(train))), len(train) - 1)
        order = np.arange(len(train))
        if self.held_out_examples == "drawn":
            order = np.random.default_rng(self.seed).permutation(len(train))
        kept, held = (Examples(train.features[rows], train.label[rows]) for rows in (order[:-count], order[-count:]))
        scores = [(self._accuracy(kept, held, penalty), penalty) for penalty in self.penalties]
        return max(scores)[1]

    def _accuracy(self, train: Examples, test: Examples, penalty: float) -> float:
        known, asked = standardised(train.features, test.features)
        model = self._fitted(known, train.label, penalty)
        return float((model.predict(asked) == test.label).mean())

    def _fitted(self, features: np.ndarray, label: np.ndarray, penalty: float) -> Any:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        self._check_classes(label)
        model = LogisticRegression(C=1 / (penalty * len(label)), max_iter=self.iterations, tol=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                return model.fit(features, label)
            except ConvergenceWarning:
                message = f"not enough for the penalty {penalty:g} to converge; give more, or larger penalties only"
                raise UserError("iterations", self.iterations, message) from None

    def _check_classes(self, label: np.ndarray) -> None:
        if len(np.unique(label)) < 2:
            raise UserError("train_split", self.train_split, "holds examples of one class only: nothing to tell apart")
