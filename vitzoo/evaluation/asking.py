"""What evaluators that ask questions share: how these are put, with solved ones before them."""

import dataclasses
from typing import Any

from vitzoo.data.text.questions import AskedSource, Questions
from vitzoo.errors import UserError
from vitzoo.evaluation.settings import TextEvaluator
from vitzoo.models.text import kind_of
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class AskingEvaluator(TextEvaluator):
    """The settings of an evaluator that asks questions.

    A prompt is `text.prefix`, then for each shot its question and answer, then the question; the answer stands directly
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

    def check_bound(self, name: str, rows: str, source: Any, config: Any) -> None:
        """Refuses rows of another kind, and a model that says nothing.

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


def check_says(name: str, config: Any) -> None:
    """Refuses a model that gives no probability of a text."""
    if kind_of(config) == "encoder":
        raise UserError("name", name, "measures a model that writes: a gpt, t5 or transformer")
