"""The evaluator of masked language models."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import UserError
from vitzoo.evaluation.settings import TextEvaluator, check_rows
from vitzoo.objectives.language_modelling import masked_outputs, token_losses
from vitzoo.schema import setting

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class MaskedEvaluator(TextEvaluator):
    """Loss of a hidden token (nats), perplexity and accuracy, all weighted by token, and, with `text.next_sentence`,
    loss and accuracy of the next sentence, by row. Which tokens are hidden, and which second part stands where, is
    drawn the same in every run. No label smoothing.
    """

    max_rows: int | None = setting(
        None, "of a long text so many rows at most, spread evenly; none: all of it", minimum=1, execution=True
    )

    ROWS: ClassVar[tuple[str, ...]] = ("masked",)
    BETTER: ClassVar[dict[str, Callable]] = {
        "loss": min,
        "perplexity": min,
        "accuracy": max,
        "next_sentence_loss": min,
        "next_sentence_accuracy": max,
    }

    def bind(self, *, feed: Any, source: Any, config: Any) -> "BoundMaskedEvaluator":
        """What measures these rows; refuses others, and a model that names no hidden tokens."""
        check_rows("masked_lm", feed, config, "masked", "pretraining")
        return BoundMaskedEvaluator(self.split, feed.text.next_sentence)


@dataclasses.dataclass(frozen=True)
class BoundMaskedEvaluator:
    """`MaskedEvaluator` for given rows, of one part or of two."""

    split: str
    next_sentence: bool

    def metric_names(self, multi_label: bool, num_classes: int | None) -> tuple[str, ...]:
        """The metrics that such data give and that a best checkpoint can be chosen by."""
        names = tuple(MaskedEvaluator.BETTER)
        return names if self.next_sentence else tuple(name for name in names if not name.startswith("next_"))

    def outputs(self, model: Any, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device: float32 [batch] each, `loss` (sum), `tokens` and `right`,
        and of the next sentence `next_loss` and `next_right`.
        """
        logits, targets, weights, following = masked_outputs(model, batch)
        losses = jnp.where(weights > 0, token_losses(logits, targets) * weights, 0)
        right = jnp.where(weights > 0, (logits.argmax(-1) == targets) * weights, 0)
        kept = {"weight": batch["weight"], "loss": losses.sum(-1), "tokens": weights.sum(-1), "right": right.sum(-1)}
        if following is None:
            return kept
        label = batch["label"]
        return kept | {
            "next_loss": token_losses(following, label),
            "next_right": (following.argmax(-1) == label).astype(jnp.float32),
        }

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: no token is hidden.
        """
        loss, count, right = (float(rows[name].sum(dtype=np.float64)) for name in ("loss", "tokens", "right"))
        if not count:
            raise UserError("split", self.split, "has no token to score")
        mean = loss / count
        metrics = {"loss": mean, "perplexity": math.exp(mean) if mean < 700 else math.inf, "accuracy": right / count}
        if "next_loss" in rows:
            metrics["next_sentence_loss"] = float(rows["next_loss"].mean(dtype=np.float64))
            metrics["next_sentence_accuracy"] = float(rows["next_right"].mean(dtype=np.float64))
        return metrics | {"tokens": count}
