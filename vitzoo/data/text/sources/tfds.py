"""Text datasets in TFDS's layout, prepared as ArrayRecord and read without TensorFlow; nothing touches the network."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from vitzoo.data import splits
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import fingerprint, kinds_of
from vitzoo.data.sources.label_check import is_unlabelled
from vitzoo.data.sources.tfds_folders import (
    SMALL,
    example_counts,
    looked_at,
    open_records,
    positions,
    shards_of,
)
from vitzoo.data.text.sources.base import text_info
from vitzoo.data.text.sources.fields import answers, recognise
from vitzoo.data.text.sources.template import read_field


class TfdsTexts:
    """A dataset whose features are text (and classes, where there are any).

    A translation's languages are its fields: name them by `data.source_field` and `data.target_field`.

    Raises:
        UserError: its fields aren't known.
    """

    def __init__(self, data: Data, builder: Any):
        self.data, self.builder = data, builder
        self.features = {name: feature for name, feature in self.builder.info.features.items() if _is_known(feature)}
        self.own = recognise({name: _like(feature) for name, feature in self.features.items()}, data)

    def counts(self) -> Mapping[str, int]:
        return example_counts(self.builder)

    def open(self, split: str) -> "TfdsTextSource":
        counts = self.counts()
        pieces = splits.parse(split, counts) if counts else []  # mocked data states no splits
        records = open_records(self.data, self.builder, split)
        return TfdsTextSource(self, split, records, pieces)


class TfdsTextSource:
    """One split of a prepared dataset."""

    def __init__(self, dataset: TfdsTexts, split: str, records: Any, pieces: list[splits.Piece]):
        self.records, self.own = records, dataset.own
        info = dataset.builder.info
        self.ids = positions(dataset.counts(), pieces, len(records))
        label = dataset.features.get(self.own.get("label", ""))
        classes: tuple[str, ...] | None = None
        if isinstance(label, tfds.features.ClassLabel):
            classes = tuple(label.names or map(str, range(label.num_classes or 0)))
        self.fields = kinds_of(self.own, "number" if classes is None else "label")
        mark = fingerprint(info.full_name, split, len(records), self.own, classes, shards_of(dataset.builder))
        unlabelled = False
        if classes is not None:
            rows = looked_at(len(records))
            found = np.array([records[index][self.own["label"]] for index in rows.tolist()], int)
            unlabelled = is_unlabelled(
                dataset.data.name, classes, found, lambda row: f"{split} example {row}", rows.tolist()
            )
        labels = self.labels if "label" in self.own else None
        about = text_info(info.full_name, split, len(records), mark, classes, (), labels, unlabelled)
        self.info = dataclasses.replace(about, labels_at_hand=len(records) <= SMALL)

    def labels(self) -> np.ndarray:
        """Every label; reads all records."""
        kind = np.float32 if self.info.classes is None else np.int32
        return np.array([self.records[index][self.own["label"]] for index in range(len(self))], kind)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> dict[str, Any]:
        record = self.records[int(index)]
        example = {field: read_field(record, name) for field, name in self.own.items()}
        return example | {"answers": answers(example["answers"])} if "answers" in example else example

    def where(self, index: int) -> str:
        return f"{self.info.name} {self.info.split} example {index}"


def _is_known(feature: Any) -> bool:
    if _holds_texts(feature):
        return True
    if isinstance(feature, tfds.features.Text | tfds.features.ClassLabel):
        return True
    return isinstance(feature, tfds.features.Scalar | tfds.features.Tensor) and feature.shape == ()


def _holds_texts(feature: Any) -> bool:
    """Whether a feature is a list of texts, or SQuAD's, whose `text` is one."""
    if not isinstance(feature, tfds.features.Sequence):
        return False
    inner = feature.feature
    if isinstance(inner, tfds.features.FeaturesDict):
        inner = dict(inner.items()).get("text")
    return isinstance(inner, tfds.features.Text)


def _like(feature: Any) -> Any:
    """A value as a feature's are: texts, text or a number."""
    if _holds_texts(feature):
        return [""]
    return "" if feature.np_dtype in (str, bytes, object) else 0
