"""The evaluator of how far a classifier's probabilities can be trusted."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax

from vitzoo.errors import UserError
from vitzoo.evaluation.classification import calibration_error, rank
from vitzoo.evaluation.settings import Evaluator, check_rows
from vitzoo.objectives.inputs import logits_of
from vitzoo.schema import setting

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class CalibrationEvaluator(Evaluator):
    """Of softmax probabilities p and one class y each, means over the examples:

    - `expected_calibration_error`: over 15 bins of equal width, |accuracy − mean probability| of the prediction,
      weighted by the share of examples (Guo et al. 2017, https://arxiv.org/abs/1706.04599, equation 3);
    - `negative_log_likelihood`: −log p[y], in nats;
    - `brier`: Σ over all classes c of (p[c] − [c = y])², from 0 to 2 (Brier 1950).
    """

    bins: int = setting(15, "of equal width, for the calibration error", minimum=2, execution=True)
    all_classes: bool = setting(
        False, "where the data have only some of the model's classes, predict among all of them", execution=True
    )

    CLASSES: ClassVar[bool] = True
    ROWS: ClassVar[tuple[str, ...]] = ("labelled",)
    BETTER: ClassVar[dict[str, Callable]] = {
        "accuracy": max,
        "expected_calibration_error": min,
        "negative_log_likelihood": min,
        "brier": min,
    }

    def bind(self, *, feed: Any, source: Any, config: Any) -> Self:
        """Refuses several labels to an example."""
        if hasattr(feed, "rows_of"):
            check_rows("calibration", feed, config, "labelled", "classes")
        if source.info.multi_label:
            raise UserError(
                "data.name", source.info.name, "has several labels to an example; calibration is of one each"
            )
        return self

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each example, [batch]: as `ClassificationEvaluator`, its loss without any smoothing, and
        `brier`.
        """
        logits, label = logits_of(model, batch, train=False).astype(jnp.float32), batch["label"]
        probability = jax.nn.softmax(logits)
        apart = probability - jax.nn.one_hot(label, logits.shape[-1])
        return {
            "weight": batch["weight"],
            "label": label,
            "loss": optax.softmax_cross_entropy_with_integer_labels(logits, label),
            "prediction": jnp.argmax(logits, axis=-1).astype(jnp.int32),
            "probability": probability.max(-1),
            "rank": rank(logits, label),
            "brier": jnp.square(apart).sum(-1),
        }

    def metrics(self, rows: Rows, num_classes: int) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: there are no rows, or a label lies outside the classes.
        """
        label, right = rows["label"], rows["rank"] == 0
        if not len(label):
            raise UserError("split", self.split, "holds no readable example, so there is nothing to evaluate")
        if label.min() < 0 or label.max() >= num_classes:
            wrong = label.min() if label.min() < 0 else label.max()
            raise UserError("label", wrong, f"lies outside the model's classes, 0 to {num_classes - 1}")
        return {
            "accuracy": float(right.mean(dtype=np.float64)),
            "expected_calibration_error": float(calibration_error(rows["probability"], right, self.bins)),
            "negative_log_likelihood": float(rows["loss"].mean(dtype=np.float64)),
            "brier": float(rows["brier"].mean(dtype=np.float64)),
        }
