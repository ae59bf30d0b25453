"""The evaluator of numbers that texts are given."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import UserError
from vitzoo.evaluation.settings import TextEvaluator, check_rows
from vitzoo.objectives.inputs import logits_of

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class RegressionEvaluator(TextEvaluator):
    """Mean squared error, and the correlations of Pearson and of Spearman (equal numbers share a rank), which GLUE
    reports for STS-B. A correlation with numbers that are all the same is undefined.
    """

    ROWS: ClassVar[tuple[str, ...]] = ("labelled",)
    BETTER: ClassVar[dict[str, Callable]] = {"mean_squared_error": min, "pearson": max, "spearman": max}

    def bind(self, *, feed: Any, source: Any, config: Any) -> Self:
        """Refuses data or a model without numbers."""
        check_rows("regression", feed, config, "labelled", "number")
        return self

    def outputs(self, model: Any, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device: float32 [batch], `label` and `prediction`."""
        prediction = logits_of(model, batch, train=False).astype(jnp.float32)
        return {"weight": batch["weight"], "label": batch["label"], "prediction": prediction}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: there are no rows.
        """
        label, said = (rows[name].astype(np.float64) for name in ("label", "prediction"))
        if not len(label):
            raise UserError("split", self.split, "holds no example, so there is nothing to evaluate")
        return {
            "mean_squared_error": float(np.square(label - said).mean()),
            "pearson": correlation(label, said),
            "spearman": correlation(ranks(label), ranks(said)),
        }


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of two float64 [n]; NaN where one doesn't vary."""
    if not np.ptp(first) or not np.ptp(second):
        return float("nan")
    first, second = first - first.mean(), second - second.mean()
    return float((first * second).sum() / np.sqrt(np.square(first).sum() * np.square(second).sum()))


def ranks(values: np.ndarray) -> np.ndarray:
    """The place of each of float64 [n] among all, from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
