"""Examples as questions: what a model is asked, what would be right, and how solved ones are put before (few-shot,
Brown et al. 2020, https://arxiv.org/abs/2005.14165, section 2).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from vitzoo.data.sources.base import Source, SourceInfo, fingerprint, kinds_of
from vitzoo.data.text.examples import TAKES, asked, refuse_unusable
from vitzoo.data.text.rows import SHOTS, draws
from vitzoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Questions:
    """How a question is put.

    The prompt is `prefix`, then each shot as `question_format` with `answer_format` directly after it, then the
    question as `question_format`; between them stands `separator`.

    Args:
        shots: solved examples before each question.
        seed: by which they are drawn, anew for each question.
        split: from which.
        separator: between two.
        question_format: holds `{question}`.
        answer_format: holds `{answer}`.
        new_tokens: that a decoder has to have room for behind the prompt.
    """

    shots: int = 0
    seed: int = 0
    split: str = "train"
    separator: str = "\n\n"
    question_format: str = "{question}"
    answer_format: str = "{answer}"
    new_tokens: int = 0

    def question(self, text: str) -> str:
        """A question as it is put."""
        return self.question_format.replace("{question}", text)

    def answer(self, text: str) -> str:
        """An answer as it follows its question."""
        return self.answer_format.replace("{answer}", text)


class AskedSource:
    """Examples of `question`, `references` (right answers, the first the usual one) and, where an answer is one of
    several, `choices` and `answer` (which).

    Args:
        source: examples that ask something: see `sources.as_pairs`.
        train: opens the examples that shots are drawn from.
        how: questions are put.
        prefix: before every prompt.

    Raises:
        UserError: the examples ask nothing.
    """

    def __init__(self, source: Source, train: Callable[[], Source], how: Questions, prefix: str = ""):
        self.source, self.how, self.prefix, self._train = source, how, prefix, train
        if not len(source):
            raise UserError("split", source.info.split, "is empty")
        first = asked(source[0], source.info.classes)
        if first is None:
            refuse_unusable(source)
            raise UserError(
                "data.name",
                source.info.name,
                f"has no questions, but the fields {', '.join(source.fields)}; needed are {TAKES}; name other data in "
                "evaluate.NAME.data.name, or leave the evaluator out: evaluate.NAME=none",
            )
        self.fields = kinds_of(("question", "references", *(() if first.choices is None else ("choices", "answer"))))
        self.ids: np.ndarray = source.ids
        told = [dataclasses.astuple(how), prefix]
        told += [self.train.info.fingerprint] if how.shots else []
        self.info: SourceInfo = dataclasses.replace(
            source.info, fingerprint=fingerprint(source.info.fingerprint, *told)
        )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {field: value for field, value in vars(self._asked(self.source, index)).items() if value is not None}

    def where(self, index: int) -> str:
        return self.source.where(index)

    @functools.cached_property
    def train(self) -> Source:
        """The examples that shots are drawn from."""
        return self._train()

    def prompts(self, index: int) -> list[str]:
        """What is asked of example `index` with all its shots, with all but the first, ..., and with none."""
        put = self.how.question(self._asked(self.source, index).question)
        shots = [self._shot(number) for number in self._drawn(index)]
        return [self.prefix + self.how.separator.join([*shots[first:], put]) for first in range(len(shots) + 1)]

    def most_common(self) -> str:
        """The most common answer of the training examples; of several the one that comes first."""
        counts: dict[str, int] = {}
        for index in range(len(self.train)):
            answer = self._asked(self.train, index).references[0]
            counts[answer] = counts.get(answer, 0) + 1
        return max(counts, key=lambda answer: counts[answer])

    def _asked(self, source: Source, index: int) -> Any:
        found = asked(source[index], source.info.classes)
        assert found is not None
        return found

    def _shot(self, number: int) -> str:
        solved = self._asked(self.train, number)
        return self.how.question(solved.question) + self.how.answer(solved.references[0])

    def _drawn(self, index: int) -> list[int]:
        """Training examples for question `index`, none of which asks the same."""
        shots = self.how.shots
        if not shots:
            return []
        count, question = len(self.train), self._asked(self.source, index).question
        for tried in dict.fromkeys((min(count, 2 * shots + 8), count)):
            numbers = draws(self.how.seed, SHOTS, index).choice(count, tried, replace=False)
            found = [int(n) for n in numbers if self._asked(self.train, int(n)).question != question]
            if len(found) >= shots:
                return found[:shots]
        raise UserError("shots", shots, f"{self.how.split} has only {len(found)} other examples to show")
