"""The evaluator of classifiers on images that may rightly be called several things."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import UserError
from vitzoo.evaluation.settings import Evaluator
from vitzoo.objectives.inputs import logits_of

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class AnyLabelEvaluator(Evaluator):
    """`accuracy`: how often the top prediction is one of an image's labels (ReaL, Beyer et al. 2020,
    https://arxiv.org/abs/2006.07159). Images without a label aren't counted.
    """

    CLASSES: ClassVar[bool] = True
    LEFT_OUT: ClassVar[str] = "without a label or unreadable"
    """What becomes of examples that have no part in the metrics."""
    BETTER: ClassVar[dict[str, Callable]] = {"accuracy": max}

    def bind(self, *, feed: Any, source: Any, config: Any) -> Self:
        """Refuses data with one label to an example."""
        if not source.info.multi_label:
            raise UserError("name", "any_label", "measures several labels to an example; of one it is `classification`")
        return self

    def metric_names(self, multi_label: bool, num_classes: int | None) -> tuple[str, ...]:
        """The metrics that a best checkpoint can be chosen by."""
        return tuple(self.BETTER)

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each example, [batch]: `weight`, 0 without a label; `prediction` and its `probability`;
        `label`, the prediction where that is right, else the first of the example's labels; `rank`, 0 where it is
        right, else 1.
        """
        logits, labels = logits_of(model, batch, train=False).astype(jnp.float32), batch["label"] > 0.5
        prediction = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        hit = jnp.take_along_axis(labels, prediction[:, None], axis=-1)[:, 0]
        right = hit & jnp.isfinite(logits).all(-1)
        return {
            "weight": jnp.where(labels.any(-1), batch["weight"], 0),
            "label": jnp.where(hit, prediction, jnp.argmax(labels, axis=-1).astype(jnp.int32)),
            "prediction": prediction,
            "probability": jax.nn.softmax(logits).max(-1),
            "rank": jnp.where(right, 0, 1).astype(jnp.int32),
        }

    def metrics(self, rows: Rows, num_classes: int) -> dict[str, float]:
        """The metrics of a pass, on the host.

        Raises:
            UserError: no example has a label.
        """
        if not len(rows["rank"]):
            raise UserError("split", self.split, "holds no readable example with a label: nothing to evaluate")
        return {"accuracy": float((rows["rank"] == 0).mean(dtype=np.float64))}
