"""The evaluator of frozen features by least squares on few examples of each class."""

import dataclasses
from collections.abc import Callable

import numpy as np

from vitzoo.evaluation.frozen.features import Examples, FrozenEvaluator, by_number, check_some, standardised
from vitzoo.schema import setting

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
        """`accuracy_5_shot`, the mean over draws, and `accuracy_5_shot_deviation`, the standard deviation over them
        (of the draws as a sample; 0 of a single one).
        """
        accuracies = np.array([self._draw(draw, train, test, classes) for draw in range(self.draws)])
        mean = accuracies.mean(0)
        deviation = accuracies.std(0, ddof=1) if self.draws > 1 else np.zeros(len(self.shots))
        found = {}
        for index, shots in enumerate(self.shots):
            found[f"accuracy_{shots}_shot"] = float(mean[index])
            found[f"accuracy_{shots}_shot_deviation"] = float(deviation[index])
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
