"""The evaluator of language models: how well the tokens of a text are told."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import Refused
from vitzoo.evaluation.settings import TextEvaluator
from vitzoo.objectives import tokens

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class PerplexityEvaluator(TextEvaluator):
    """Loss a token (nats), perplexity and accuracy of the next token, all weighted by token: each scored token counts
    once, whatever row or batch it stands in. No label smoothing.
    """

    CLASSES: ClassVar[bool] = False
    BETTER: ClassVar[dict[str, Callable]] = {"loss": min, "perplexity": min, "accuracy": max}

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device: `loss` (sum), `tokens` and `right`, float32 [batch]."""
        logits = tokens.logits_of(model, batch)
        weights, targets = tokens.scored(batch), batch["targets"]
        losses = jnp.where(weights > 0, tokens.token_losses(logits, targets) * weights, 0)
        right = jnp.where(weights > 0, (logits.argmax(-1) == targets) * weights, 0)
        kept = {"loss": losses.sum(-1), "tokens": weights.sum(-1), "right": right.sum(-1)}
        return {"weight": batch["weight"], **kept}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            Refused: no token is scored.
        """
        loss, count, right = (float(rows[name].sum(dtype=np.float64)) for name in ("loss", "tokens", "right"))
        if not count:
            raise Refused("split", self.split, "has no token to score")
        mean = loss / count
        perplexity = math.exp(mean) if mean < 700 else math.inf
        return {"loss": mean, "perplexity": perplexity, "accuracy": right / count, "tokens": count}
