"""Two splits of a dataset as one source: examples to learn from, then examples to measure."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitzoo import names
from vitzoo.data.sources.base import fingerprint
from vitzoo.data.sources.label_check import refuse_unlabelled
from vitzoo.errors import UserError


class Both:
    """The examples of `train`, then those of `test`; `first` is how many come first.

    Raises:
        UserError: their classes aren't the same, or some of the examples are.
    """

    def __init__(self, train: Any, test: Any):
        refuse_unlabelled(train.info)
        if not _same(train.info.classes, test.info.classes):
            raise UserError("train_split", train.info.split, f"has other classes than {test.info.split}")
        if shared := len(np.intersect1d(train.ids, test.ids)):
            message = f"holds {shared:,} of the examples to be measured, {test.info.split}; name others"
            raise UserError("train_split", train.info.split, message)
        self.parts, self.first = (train, test), len(train)
        self.ids = np.concatenate([train.ids, test.ids])
        if hasattr(test, "fields"):
            self.fields = test.fields
        infos = (train.info, test.info)
        files = None
        if all(info.files is not None for info in infos):
            files = [name for info in infos for name in info.files or ()]
        self.info = dataclasses.replace(
            test.info,
            split=f"{test.info.split} ({len(test):,}), learning from {train.info.split} ({len(train):,})",
            n=len(train) + len(test),
            fingerprint=fingerprint(train.info.fingerprint, test.info.fingerprint),
            files=files,
            labels=self.labels,
        )

    def labels(self) -> np.ndarray:
        return np.concatenate([part.info.labels() for part in self.parts])

    def __len__(self) -> int:
        return len(self.ids)

    def _place(self, index: int) -> tuple[Any, int]:
        train, test = self.parts
        return (train, index) if index < self.first else (test, index - self.first)

    def __getitem__(self, index: int) -> Any:
        part, own = self._place(int(index))
        return part[own]

    def where(self, index: int) -> str:
        part, own = self._place(int(index))
        return part.where(own)


def _same(ours: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    return ours == others if ours is None or others is None else names.are_same(ours, others)
