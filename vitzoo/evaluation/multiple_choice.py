"""The evaluator of questions with several answers to choose from (HellaSwag, PIQA, ARC ...)."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.text.questions import AskedSource
from vitzoo.evaluation.asking import AskingEvaluator
from vitzoo.objectives import tokens
from vitzoo.schema import setting

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class MultipleChoiceEvaluator(AskingEvaluator):
    """How often the right choice is the most probable one to follow its question: `accuracy`, by the summed
    log-probability of its tokens, and `accuracy_normalised`, by that sum over the choice's length in bytes of UTF-8, as
    in lm-evaluation-harness. An example is `question`, `choices` and `answer`, the right one's index from 0, or a text
    and its class, one of all classes' names.

    Question and choice (as `answer_format` puts it) are tokenized apart; no end token is scored.
    """

    rows: str = setting("choices", "what a row holds: a question and its choices", choices=("choices",), execution=True)

    CLASSES: ClassVar[bool] = False
    ROWS: ClassVar[tuple[str, ...]] = ("choices",)
    BETTER: ClassVar[dict[str, Callable]] = {"accuracy": max, "accuracy_normalised": max}

    def bind(self, *, feed: Any, source: Any, config: Any) -> "MultipleChoice":
        self.check_bound("multiple_choice", "choices", source, config)
        return MultipleChoice(source)


@dataclasses.dataclass(frozen=True, eq=False)
class MultipleChoice:
    """The evaluator bound to its questions."""

    source: AskedSource

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each question, computed on device: `score` float32 [batch, choices], the summed
        log-probability of each, lowest where there is no such choice; `answer` int32 [batch].
        """
        there = batch["choices"]
        flat = {name: one.reshape(-1, *one.shape[2:]) for name, one in batch.items() if one.ndim == 3}
        losses = tokens.token_losses(tokens.logits_of(model, flat), flat["targets"])
        scores = -jnp.where(flat["weights"] > 0, losses, 0).sum(-1).reshape(there.shape)
        scores = jnp.where(there > 0, scores, jnp.finfo(scores.dtype).min)
        return {"weight": batch["weight"], "score": scores, "answer": batch["answer"]}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host."""
        plain, normalised = self.chosen(rows)
        return {
            "accuracy": float((plain == rows["answer"]).mean()),
            "accuracy_normalised": float((normalised == rows["answer"]).mean()),
        }

    def predictions(self, rows: Rows) -> list[dict[str, Any]]:
        """For each example `source` (the question), `reference` and `prediction` (choices), and
        `prediction_normalised`.
        """
        found = []
        for position, *chosen in zip(
            rows["position"].tolist(), *(one.tolist() for one in self.chosen(rows)), strict=True
        ):
            asked = self.source[position]
            plain, normalised = (asked["choices"][number] for number in chosen)
            told = {"source": asked["question"], "reference": asked["references"][0]}
            found.append(told | {"prediction": plain, "prediction_normalised": normalised})
        return found

    def chosen(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The choice with the best score, and with the best one for its length, int [n] each; of equals the first."""
        score = rows["score"].astype(np.float64)
        lengths = np.ones(score.shape)
        for row, position in enumerate(rows["position"].tolist()):
            sizes = [max(len(choice.encode()), 1) for choice in self.source[position]["choices"]]
            lengths[row, : len(sizes)] = sizes
        return score.argmax(1), (score / lengths).argmax(1)
