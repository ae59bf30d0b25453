"""The evaluator of frozen features by logistic regression."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from vitzoo.errors import UserError
from vitzoo.evaluation.frozen.features import Examples, FrozenEvaluator, check_some, standardised
from vitzoo.schema import setting

PENALTIES = tuple(10.0**power for power in range(-6, 2))


@dataclasses.dataclass(frozen=True)
class LinearProbeEvaluator(FrozenEvaluator):
    """Accuracy of logistic regression on standardised features, by scikit-learn's L-BFGS until it has converged.

    The mean cross-entropy plus penalty/2 · |W|² is made smallest (the bias is free). The penalty is the one with the
    best accuracy on a held-out share of the training examples (of equals the largest), and the weights are then learned
    anew from all of them.
    """

    penalties: tuple[float, ...] = setting(PENALTIES, "to choose from", above=0.0, execution=True)  # type: ignore[assignment]
    held_out: float = setting(
        0.2, "share of training examples to choose the penalty by", above=0.0, below=1.0, execution=True
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
