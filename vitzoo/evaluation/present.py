"""Data of which only the classes that occur are to be told apart."""

import dataclasses
from typing import Any

import numpy as np

from vitzoo.errors import UserError


class Present:
    """A source with the classes that its examples have, in its order; all others are left out of the names.

    ImageNet-A and -R name all of ImageNet's 1,000 classes and have images of 200 of them.

    Raises:
        UserError: it names no classes, or its examples may have several.
    """

    def __init__(self, source: Any):
        info = source.info
        if info.multi_label or info.classes is None:
            raise UserError("present_classes", True, f"is of data with one class each; {info.name} has no such")
        self.source, self.ids = source, source.ids
        self.kept = np.unique(info.labels())
        self.number = np.full(len(info.classes), -1, np.int32)
        self.number[self.kept] = np.arange(len(self.kept))
        classes = tuple(info.classes[index] for index in self.kept)
        self.info = dataclasses.replace(info, classes=classes, labels=self.labels)
        if hasattr(source, "fields"):
            self.fields = source.fields

    def labels(self) -> np.ndarray:
        return self.number[self.source.info.labels()]

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        example = self.source[index]
        return {**example, "label": self.number[example["label"]]}

    def where(self, index: int) -> str:
        return self.source.where(index)
