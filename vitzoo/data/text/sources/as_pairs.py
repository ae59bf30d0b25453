"""Examples of other kinds as pairs of a source and a target, so that one text-to-text model can do every task
(Raffel et al. 2020, 2.4).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.data.sources.base import Source, SourceInfo, kinds_of
from vitzoo.data.text.sources.base import refuse_unusable
from vitzoo.errors import UserError

TAKES = (
    "source + target, prompt + completion, question + answers, question + choices + answer, text + label, "
    "first + second + label"
)
WITHHELD = "no class: test splits often withhold theirs"


@dataclasses.dataclass(frozen=True)
class Asked:
    """An example as a question: right answers, the first the usual one, and where it is one of several, these and the
    right one's place among them."""

    question: str
    references: tuple[str, ...]
    choices: tuple[str, ...] | None = None
    answer: int | None = None


def asked(example: Mapping[str, Any], classes: tuple[str, ...] | None) -> Asked | None:
    """What an example asks; None where it is of no kind that asks.

    A labelled text asks for its class's name, or its number. Two texts are put as T5 puts them.
    """
    for given, wanted in (("source", "target"), ("prompt", "completion")):
        if given in example:
            return Asked(example[given], (example[wanted],))
    if "question" in example:
        question = example["question"]
        if "passage" in example:
            question = f"question: {question} context: {example['passage']}"
        return _answered(question, example)
    if "label" not in example or not ({"text", "first"} & set(example)):
        return None
    text = example.get("text")
    if text is None:
        text = f"first: {example['first']} second: {example['second']}"
    label = example["label"]
    if classes is None:
        return Asked(text, (f"{label:g}",))
    if not 0 <= label < len(classes):
        raise UserError("data.split", None, f"holds an example with the label {label}, which is {WITHHELD}")
    return Asked(text, (classes[label],), classes, int(label))


def _answered(question: str, example: Mapping[str, Any]) -> Asked:
    if "answers" in example:
        answers = example["answers"]
        return Asked(question, (answers,) if isinstance(answers, str) else tuple(answers))
    choices, right = tuple(example["choices"]), int(example["answer"])
    return Asked(question, (choices[right],), choices, right)


def as_pairs(source: Source) -> Source:
    """The examples as pairs of a question and its usual answer.

    Raises:
        UserError: they are of no kind that makes a pair.
    """
    fields = set(source.fields)
    if {"source", "target"} <= fields:
        return source
    if len(source) and asked(source[0], source.info.classes) is not None:
        return PairSource(source)
    refuse_unusable(source)
    raise UserError("data.name", source.info.name, f"sequence to sequence takes {TAKES}; this is {', '.join(fields)}")


class PairSource:
    """See `as_pairs`."""

    def __init__(self, source: Source):
        self.source = source
        self.fields = kinds_of(("source", "target"))
        self.info: SourceInfo = source.info
        self.ids: np.ndarray = source.ids

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> dict[str, Any]:
        found = asked(self.source[index], self.info.classes)
        assert found is not None
        return {"source": found.question, "target": found.references[0]}

    def where(self, index: int) -> str:
        return self.source.where(index)
