"""`tasks/NAME`: records of TFDS as the questions, or texts, that a task makes of them."""

from collections.abc import Mapping
from typing import Any

from vitzoo.data.settings import Data
from vitzoo.data.sources.records import Records
from vitzoo.data.text.datasets.task_table import TASKS, Task
from vitzoo.data.text.sources.as_pairs import WITHHELD
from vitzoo.data.text.sources.base import text_info
from vitzoo.data.text.sources.template import Template, plain, read_field
from vitzoo.errors import UserError
from vitzoo.schema import nearest


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
        self.records = Records(data, self.task.dataset, text=True)

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
        self.fields: tuple[str, ...] = ("text",)
        if self.task.question:
            self.fields = ("question", *(("choices", "answer") if self.task.label else ("answers",)))
        self.ids = dataset.records.ids(split)
        self.info = text_info(dataset.name, split, len(self.records), dataset.records.mark(self.task, split))

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
            choices = tuple(plain(record[choices[0]]))
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


def right_answers(task: Task, record: Mapping[str, Any]) -> list[str]:
    """The answers of a record that are right, each once."""
    if task.step:
        value = round(float(record[task.answers.strip("{}")]) / task.step) * task.step
        return [f"{value:.1f}"]
    if "{" in task.answers:
        return [filled(task.answers, record)]
    first, *within = task.answers.split("/")
    found = plain(record[first])
    for key in within:
        found = found[key]
    return list(dict.fromkeys(found))


def filled(template: str, record: Mapping[str, Any]) -> str:
    """A template with the fields of a record."""
    return read_field(record, Template(template))
