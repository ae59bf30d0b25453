"""The evaluator of language models: how well the tokens of a text are told."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import Refused
from vitzoo.evaluation.settings import Evaluator

Rows = Mapping[str, np.ndarray]
SOURCE = ("source_tokens", "source_segments", "source_positions")


@dataclasses.dataclass(frozen=True)
class PerplexityEvaluator(Evaluator):
    """Loss a token (nats), perplexity and accuracy of the next token, all weighted by token: each scored token counts
    once, whatever row or batch it stands in. No label smoothing.
    """

    CLASSES: ClassVar[bool] = False
    BETTER: ClassVar[dict[str, Callable]] = {"loss": min, "perplexity": min, "accuracy": max}

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device: `loss` (sum), `tokens` and `right`, float32 [batch]."""
        logits = _logits(model, batch)
        weights, targets = batch["weights"].astype(jnp.float32), batch["targets"]
        own = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)[..., 0]
        losses = jnp.where(weights > 0, -own * weights, 0)
        right = jnp.where(weights > 0, (logits.argmax(-1) == targets) * weights, 0)
        kept = {"loss": losses.sum(-1), "tokens": weights.sum(-1), "right": right.sum(-1)}
        return {"weight": batch["weight"], **kept}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            Refused: no token is scored.
        """
        loss, tokens, right = (float(rows[name].sum(dtype=np.float64)) for name in ("loss", "tokens", "right"))
        if not tokens:
            raise Refused("split", self.split, "has no token to score")
        mean = loss / tokens
        perplexity = math.exp(mean) if mean < 700 else math.inf
        return {"loss": mean, "perplexity": perplexity, "accuracy": right / tokens, "tokens": tokens}


def _logits(model: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
    given = {"segments": batch["segments"], "positions": batch["positions"]}
    if "source_tokens" not in batch:
        return model(batch["tokens"], **given)
    given |= {name: batch[name] for name in SOURCE[1:]}
    return model(batch["source_tokens"], batch["tokens"], **given)
