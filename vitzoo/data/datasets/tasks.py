"""`tasks/NAME`: records of TFDS as the questions, or texts, that a task makes of them.

The forms of GLUE, SuperGLUE, SQuAD, CNN/DailyMail and WMT are T5's (Raffel et al. 2020, https://arxiv.org/abs/1910.10683,
appendix D), but for `super_glue/wsc`, which T5 turns into another task.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.data.settings import Data
from vitzoo.data.sources.base import SourceInfo, kinds_of
from vitzoo.data.sources.tfds import TfdsRecords
from vitzoo.data.sources.values import Stored, Template, plain, read_field
from vitzoo.data.text.examples import WITHHELD
from vitzoo.errors import UserError
from vitzoo.spelling import nearest


@dataclasses.dataclass(frozen=True)
class Task:
    """One task. `{field}` stands for a feature of a record; of a list its entries, joined by a comma.

    Args:
        dataset: TFDS's name.
        question: how it is put; empty: a record is a `text`.
        text: that text.
        choices: answers to choose from, or one name of a feature that lists them; none: the names of the classes.
        label: the feature that holds the right choice's number; empty: there is nothing to choose.
        answers: a feature of right answers, `answers/text` within another, or a template of one.
        step: of a number to say, what it is rounded to.
        group: what examples of one question share.
    """

    dataset: str
    question: str = ""
    text: str = ""
    choices: tuple[str, ...] = ()
    label: str = ""
    answers: str = ""
    step: float = 0.0
    group: str = ""


def _classes(dataset: str, question: str) -> Task:
    return Task(dataset, question, label="label")


TASKS: dict[str, Task] = {
    "lambada": Task("lambada", text="{passage}"),
    "hellaswag": Task("hellaswag", "{context}", choices=("endings",), label="label"),
    "glue/cola": _classes("glue/cola", "cola sentence: {sentence}"),
    "glue/sst2": _classes("glue/sst2", "sst2 sentence: {sentence}"),
    "glue/mrpc": _classes("glue/mrpc", "mrpc sentence1: {sentence1} sentence2: {sentence2}"),
    "glue/qqp": _classes("glue/qqp", "qqp question1: {question1} question2: {question2}"),
    "glue/stsb": Task("glue/stsb", "stsb sentence1: {sentence1} sentence2: {sentence2}", answers="{label}", step=0.2),
    "glue/mnli": _classes("glue/mnli", "mnli hypothesis: {hypothesis} premise: {premise}"),
    "glue/qnli": _classes("glue/qnli", "qnli question: {question} sentence: {sentence}"),
    "glue/rte": _classes("glue/rte", "rte sentence1: {sentence1} sentence2: {sentence2}"),
    "glue/wnli": _classes("glue/wnli", "wnli sentence1: {sentence1} sentence2: {sentence2}"),
    "super_glue/boolq": _classes("super_glue/boolq", "boolq passage: {passage} question: {question}"),
    "super_glue/cb": _classes("super_glue/cb", "cb hypothesis: {hypothesis} premise: {premise}"),
    "super_glue/copa": _classes(
        "super_glue/copa", "copa choice1: {choice1} choice2: {choice2} premise: {premise} question: {question}"
    ),
    "super_glue/multirc": Task(
        "super_glue/multirc",
        "multirc question: {question} answer: {answer} paragraph: {paragraph}",
        label="label",
        group="{question}\n{paragraph}",
    ),
    "super_glue/record": Task(
        "super_glue/record", "record query: {query} entities: {entities} passage: {passage}", answers="answers"
    ),
    "super_glue/rte": _classes("super_glue/rte", "rte hypothesis: {hypothesis} premise: {premise}"),
    "super_glue/wic": _classes("super_glue/wic", "wic sentence1: {sentence1} sentence2: {sentence2} word: {word}"),
    "super_glue/wsc": _classes("super_glue/wsc.fixed", "wsc text: {text} span1: {span1_text} span2: {span2_text}"),
    "squad": Task("squad/v1.1", "question: {question} context: {context}", answers="answers/text"),
    "cnn_dailymail": Task("cnn_dailymail", "{article}", answers="{highlights}"),
    "wmt/en-de": Task("wmt14_translate/de-en", "{en}", answers="{de}"),
    "wmt/en-fr": Task("wmt14_translate/fr-en", "{en}", answers="{fr}"),
    "wmt/en-ro": Task("wmt16_translate/ro-en", "{en}", answers="{ro}"),
}


class Tasks:
    """A task's dataset.

    Raises:
        UserError: there is no such task, or its dataset isn't prepared.
    """

    def __init__(self, data: Data):
        _, _, name = data.name.partition("/")
        if name not in TASKS:
            raise UserError("data.name", data.name, f"tasks/NAME names a task; {nearest(name, TASKS)}")
        self.name, self.task = data.name, TASKS[name]
        self.records = TfdsRecords(data, self.task.dataset)

    def counts(self) -> Mapping[str, int]:
        return self.records.counts()

    def open(self, split: str) -> "TaskSource":
        return TaskSource(self, split)


class TaskSource:
    """One split: examples of `text`; of `question`, `choices` and `answer`; or of `question` and `answers`."""

    def __init__(self, dataset: Tasks, split: str):
        self.task, self.split, self.records = dataset.task, split, dataset.records.open(split)
        self.choices = self.task.choices
        if self.task.label and not self.choices:
            feature = dataset.records.features[self.task.label]
            self.choices = tuple(feature.names or map(str, range(feature.num_classes)))
        answers = ("choices", "answer") if self.task.label else ("answers",)
        self.fields = kinds_of(("question", *answers) if self.task.question else ("text",))
        self.ids = dataset.records.ids(split)
        self.info = SourceInfo(dataset.name, split, len(self.records), dataset.records.mark(self.task, split))

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> dict[str, Any]:
        record, task = self.records[int(index)], self.task
        if not task.question:
            return {"text": filled(task.text, record)}
        question = {"question": filled(task.question, record)}
        if not task.label:
            return question | {"answers": right_answers(task, record)}
        choices = self.choices
        if task.choices and len(choices) == 1:
            listed: Any = plain(record[choices[0]])
            choices = tuple(listed)
        return question | {"choices": list(choices), "answer": self._answer(record, index, len(choices))}

    def _answer(self, record: Mapping[str, Any], index: int, count: int) -> int:
        answer = int(record[self.task.label])
        if not 0 <= answer < count:
            raise UserError(
                "data.split", self.split, f"{self.where(index)} has the label {answer}, which is {WITHHELD}"
            )
        return answer

    def group(self, index: int) -> str:
        """What an example shares with the others of its question."""
        return filled(self.task.group, self.records[int(index)])

    def where(self, index: int) -> str:
        return f"{self.info.name} {self.split} example {index}"


def right_answers(task: Task, record: Mapping[str, Stored]) -> list[str]:
    """The answers of a record that are right, each once."""
    if task.step:
        stated: Any = record[task.answers.strip("{}")]
        value = round(float(stated) / task.step) * task.step
        return [f"{value:.1f}"]
    if "{" in task.answers:
        return [filled(task.answers, record)]
    first, *within = task.answers.split("/")
    found: Any = plain(record[first])
    for key in within:
        found = found[key]
    return list(dict.fromkeys(found))


def filled(template: str, record: Mapping[str, Stored]) -> str:
    """A template with the fields of a record."""
    return str(read_field(record, Template(template)))
