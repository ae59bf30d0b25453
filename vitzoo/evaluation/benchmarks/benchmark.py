"""What a benchmark is."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.data.datasets.tasks import TASKS
from vitzoo.data.datasets.vtab import TASKS as VTAB
from vitzoo.strict_json import JSON

OWN = "the checkpoint's own"
"""What becomes of an image, or of a text, where a benchmark doesn't say otherwise."""

UNITS = {"%": 100.0, "": 1.0}
"""What a metric is multiplied by where it is shown."""


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a published checkpoint scores, in the benchmark's unit; of which checkpoint; and who says so."""

    score: float
    checkpoint: str
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One row of a table: everything that tells a benchmark from others.

    Args:
        name: what a user types.
        takes: images or text.
        dataset: as `data.name`; empty: the user's own.
        split: in TFDS's syntax.
        evaluator: a part's name.
        settings: of the evaluator.
        metric: the one that the benchmark is known by, of the evaluator or of `scores.MORE`.
        more: further ones of `scores.MORE`.
        unit: of the metric, a key of `UNITS`.
        expected: what is known of a published checkpoint.
        by_hand: what can't be fetched by `vitzoo data prepare`, or needs an account.
        train_split: what evaluators of frozen features learn from; empty: nothing.
        preprocessing: what differs from the checkpoint's own.
        text: settings of the text, as in `config.inputs.tokens`.
        imagenet: classes are ImageNet's by their WordNet ids.
        decoder: settings of the evaluator that differ for a model like GPT.
        encoder: how a model like BERT is measured, which has a head for each task; none: not at all.
        prefix: what T5 reads before the text.
        group: the table that it belongs to, and its part of it.
    """

    name: str
    takes: str
    dataset: str
    split: str
    evaluator: str = "classification"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metric: str = "accuracy"
    more: tuple[str, ...] = ()
    unit: str = "%"
    expected: Expected | None = None
    by_hand: str = ""
    train_split: str = ""
    preprocessing: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    text: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    imagenet: bool = False
    decoder: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    encoder: "Encoder | None" = None
    prefix: str = ""
    group: tuple[str, str] = ("", "")

    @property
    def prepared(self) -> str:
        """What `vitzoo data prepare` calls the dataset; empty where it has none of its own."""
        kind, _, task = self.dataset.partition("/")
        tables: dict[str, Mapping[str, Any]] = {"vtab": VTAB, "tasks": TASKS}
        return tables[kind][task].dataset if kind in tables else self.dataset

    @property
    def processing(self) -> str:
        """What becomes of an example, in a few words."""
        if self.takes == "images":
            changed = ", ".join(f"{key} {value}" for key, value in self.preprocessing.items())
            return f"{OWN}, with {changed}" if changed else OWN
        return f"{OWN} tokenizer" + (f", prefix {self.prefix!r} for T5" if self.prefix else "")

    def shown(self, score: float | None) -> str:
        """A value of its metric as it is printed."""
        return "–" if score is None else f"{score * UNITS[self.unit]:.2f}"

    def to_json(self) -> dict[str, JSON]:
        """Plain values, for `--json`."""
        return {
            "name": self.name,
            "dataset": self.prepared or None,
            "split": self.split,
            "preprocessing": self.processing,
            "evaluator": self.evaluator,
            "metric": self.metric,
            "unit": self.unit or None,
            "expected": None if self.expected is None else dataclasses.asdict(self.expected),
            "by_hand": self.by_hand or None,
        }


@dataclasses.dataclass(frozen=True)
class Encoder:
    """How a model with a head for the task is measured: the evaluator, the dataset and which of its fields are
    read.
    """

    evaluator: str
    dataset: str
    fields: Mapping[str, Any]
    metric: str = ""
