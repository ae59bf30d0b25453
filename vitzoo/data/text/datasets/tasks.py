"""`tasks/NAME`: records of TFDS as the questions, or texts, that a task makes of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.data.settings import Data
from vitzoo.data.sources.records import Records
from vitzoo.data.text.datasets.task_table import TASKS, Task
from vitzoo.data.text.sources.base import text_info
from vitzoo.errors import Refused
from vitzoo.schema import nearest


class Tasks:
    """A task's dataset.

    Raises:
        Refused: there is no such task, or its dataset isn't prepared.
    """

    def __init__(self, data: Data):
        _, _, name = data.name.partition("/")
        if name not in TASKS:
            raise Refused("data.name", data.name, f"tasks/NAME names a task; {nearest(name, TASKS)}")
        self.name, self.task = data.name, TASKS[name]
        self.records = Records(data, self.task.dataset, text=True)

    def counts(self) -> Mapping[str, int]:
        return self.records.counts()

    def open(self, split: str) -> "TaskSource":
        return TaskSource(self, split)


def open_task(data: Data) -> Tasks:
    """The dataset of `tasks/NAME`."""
    return Tasks(data)


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
            choices = texts(record[choices[0]])
        return question | {"choices": list(choices), "answer": int(record[task.label])}

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
    found: Any = record
    for key in task.answers.split("/"):
        found = found[key]
    return list(dict.fromkeys(texts(found)))


def texts(value: Any) -> tuple[str, ...]:
    """A list of a record as texts."""
    return tuple(_plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value))


def filled(template: str, record: Mapping[str, Any]) -> str:
    """A template with the fields of a record."""
    return template.format_map(_Fields(record))


class _Fields(dict):
    """The fields of a record as text, made when they are asked for."""

    def __getitem__(self, key: str) -> str:
        value = super().__getitem__(key)
        return (
            ", ".join(texts(value))
            if isinstance(value, list | tuple | np.ndarray) and np.ndim(value)
            else _plain(value)
        )


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if hasattr(value, "item"):
        return _plain(value.item())
    return value if isinstance(value, str) else f"{value:g}"
