"""Evaluators that ask questions: how these are put, with solved ones before them, and those with choices of an answer.

Of the latter are HellaSwag, PIQA and ARC.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.inputs import Inputs
from vitzoo.data.sources.base import Source
from vitzoo.data.text.questions import AskedSource, Questions
from vitzoo.errors import UserError
from vitzoo.evaluation.settings import Rows, TextEvaluator
from vitzoo.models.base import ModelConfig
from vitzoo.models.text import kind_of
from vitzoo.objectives.inputs import logits_of
from vitzoo.objectives.language_modelling import token_losses
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class AskingEvaluator(TextEvaluator):
    """The settings of an evaluator that asks questions.

    A prompt is `prefix`, then for each shot its question and answer, then the question; the answer stands directly
    behind its question, and `shot_separator` between two. So `question_format="Q: {question}\\nA:"` with
    `answer_format=" {answer}"` gives

        Q: one and one
        A: two

        Q: two and two
        A:
    """

    shots: int = setting(0, "solved training examples before each question", minimum=0, execution=True)
    shot_seed: int = setting(0, "by which they are drawn, for each question anew", minimum=0, execution=True)
    shot_split: str = setting("train", "from which", execution=True)
    shot_separator: str = setting("\n\n", "between shots, and before the question", execution=True)
    question_format: str = setting("{question}", "how a question is put", execution=True)
    answer_format: str = setting("{answer}", "how an answer follows its question", execution=True)

    def check(self) -> None:
        """Raises:
        UserError: as every evaluator, or a format without what it is of.
        """
        super().check()
        for field, mark in (("question_format", "{question}"), ("answer_format", "{answer}")):
            if mark not in getattr(self, field):
                raise UserError(field, getattr(self, field) or "''", f"must hold {mark}")

    @property
    def new_tokens(self) -> int:
        """Tokens that a decoder has to have room for behind a prompt."""
        return 0

    @property
    def questions(self) -> Questions:
        """How questions are put."""
        return Questions(
            shots=self.shots,
            seed=self.shot_seed,
            split=self.shot_split,
            separator=self.shot_separator,
            question_format=self.question_format,
            answer_format=self.answer_format,
            new_tokens=self.new_tokens,
        )

    def asked(self, name: str, rows: str, source: Source, config: ModelConfig) -> AskedSource:
        """The questions; refuses rows of another kind, and a model that says nothing.

        Args:
            name: of the evaluator.
            rows: what its rows are.
            source: the examples.
            config: the model's settings.
        """
        if self.rows != rows:
            raise UserError("rows", self.rows, f"{name} measures {rows}; leave it out")
        check_says(name, config)
        assert isinstance(source, AskedSource)
        return source


def check_says(name: str, config: ModelConfig) -> None:
    """Refuses a model that gives no probability of a text."""
    if kind_of(config) == "encoder":
        raise UserError("name", name, "measures a model that writes: a gpt, t5 or transformer")


LENGTHS: Mapping[str, Callable[[str], int]] = {"acc_norm": len, "acc_bytes": lambda choice: len(choice.encode())}
"""Metrics whose scores are divided by a choice's length, as lm-evaluation-harness calls them; how that is measured."""


@dataclasses.dataclass(frozen=True)
class MultipleChoiceEvaluator(AskingEvaluator):
    """How often the right choice is the most probable one to follow its question: `accuracy`, by the summed
    log-probability of its tokens; and, under lm-evaluation-harness's names, `acc_norm`, by that sum over the number of
    characters of the choice, and `acc_bytes`, over its number of bytes in UTF-8. The length is the bare choice's,
    without what `answer_format` puts around it. An example is `question`, `choices` and `answer`, the right one's index
    from 0, or a text and its class, one of all classes' names.

    Question and choice (as `answer_format` puts it) are tokenized apart; no end token is scored.
    """

    rows: str = setting("choices", "what a row holds: a question and its choices", choices=("choices",), execution=True)

    CLASSES: ClassVar[bool] = False
    ROWS: ClassVar[tuple[str, ...]] = ("choices",)
    BETTER: ClassVar[dict[str, Callable]] = dict.fromkeys(("accuracy", *LENGTHS), max)

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> "MultipleChoice":
        return MultipleChoice(self.asked("multiple_choice", "choices", source, config))


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
        losses = token_losses(logits_of(model, flat), flat["targets"])
        scores = -jnp.where(flat["target_weights"] > 0, losses, 0).sum(-1).reshape(there.shape)
        scores = jnp.where(there > 0, scores, jnp.finfo(scores.dtype).min)
        return {"example_weight": batch["example_weight"], "score": scores, "answer": batch["answer"]}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host. A question with a score that is no number isn't right."""
        found = {"accuracy": self.chosen(rows)} | {name: self.chosen(rows, name) for name in LENGTHS}
        known = np.isfinite(rows["score"]).all(1)
        return {name: float((known & (chosen == rows["answer"])).mean()) for name, chosen in found.items()}

    def predictions(self, rows: Rows) -> list[dict[str, str]]:
        """For each example `source` (the question), `reference` and `prediction` (choices), and the choices that
        `prediction_acc_norm` and `prediction_acc_bytes` are made by.
        """
        chosen = {"prediction": self.chosen(rows)} | {f"prediction_{name}": self.chosen(rows, name) for name in LENGTHS}
        found = []
        for row, position in enumerate(rows["position"].tolist()):
            asked = self.source[position]
            told = {"source": asked["question"], "reference": asked["references"][0]}
            found.append(told | {name: asked["choices"][numbers[row]] for name, numbers in chosen.items()})
        return found

    def chosen(self, rows: Rows, by: str = "") -> np.ndarray:
        """The choice with the best score, int [n], of equals the first.

        Args:
            rows: of a pass.
            by: a key of `LENGTHS`, by which scores are divided; empty: they aren't.
        """
        score = rows["score"].astype(np.float64)
        if by:
            for row, position in enumerate(rows["position"].tolist()):
                lengths = [max(LENGTHS[by](choice), 1) for choice in self.source[position]["choices"]]
                score[row, : len(lengths)] /= lengths
        return score.argmax(1)
