"""The evaluator of last words (LAMBADA)."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.text.last_word import split_last
from vitzoo.evaluation.asking import check_says
from vitzoo.evaluation.settings import TextEvaluator
from vitzoo.objectives.inputs import logits_of
from vitzoo.objectives.language_modelling import token_losses
from vitzoo.schema import setting

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class LastWordEvaluator(TextEvaluator):
    """Whether the last word of each text is what the model would write, taking the most probable token each time:
    `accuracy`, the share of texts of which every token of the last word is; and `perplexity`, of a last word: the
    exponential of the mean over texts of minus the log-probability of all its tokens. An example is a `text`.
    """

    rows: str = setting("last_word", "what a row holds: a text", choices=("last_word",), execution=True)

    CLASSES: ClassVar[bool] = False
    ROWS: ClassVar[tuple[str, ...]] = ("last_word",)
    BETTER: ClassVar[dict[str, Callable]] = {"accuracy": max, "perplexity": min}

    def bind(self, *, feed: Any, source: Any, config: Any) -> "LastWord":
        check_says("last_word", config)
        return LastWord(source)


@dataclasses.dataclass(frozen=True, eq=False)
class LastWord:
    """The evaluator bound to its texts."""

    source: Any

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each text, computed on device: `loss` float32 [batch], of its whole last word, and
        `right` bool [batch].
        """
        logits, said = logits_of(model, batch), batch["weights"] > 0
        losses = jnp.where(said, token_losses(logits, batch["targets"]), 0)
        right = (logits.argmax(-1) == batch["targets"]) | ~said
        return {"weight": batch["weight"], "loss": losses.sum(-1), "right": right.all(-1)}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host."""
        mean = float(rows["loss"].mean(dtype=np.float64))
        perplexity = math.exp(mean) if mean < 700 else math.inf
        return {"accuracy": float(rows["right"].mean()), "perplexity": perplexity}

    def predictions(self, rows: Rows) -> list[dict[str, Any]]:
        """For each example `source` (what stands before), `reference` (the word), `right` and `loss`."""
        found = []
        for row, position in enumerate(rows["position"].tolist()):
            before, word = split_last(self.source[position]["text"])
            told = {"source": before, "reference": word.strip(), "right": bool(rows["right"][row])}
            found.append(told | {"loss": float(rows["loss"][row])})
        return found
