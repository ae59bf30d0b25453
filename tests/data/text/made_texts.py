"""Sources made of what a test writes."""

from typing import Any

import numpy as np

from vitzoo.data.sources.base import SourceInfo, fingerprint, kinds_of


class MadeSource:
    """Examples from a list."""

    def __init__(self, examples: list[dict[str, Any]], classes: tuple[str, ...] | None = None, name: str = "made"):
        self.examples, self.fields = examples, kinds_of(examples[0])
        self.ids = np.arange(len(examples)) + 100
        self.info = SourceInfo(name, "train", len(examples), fingerprint(examples, classes), classes)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return dict(self.examples[index])

    def where(self, index: int) -> str:
        return f"{self.info.name}:{index}"


def texts(*written: str) -> MadeSource:
    return MadeSource([{"text": text} for text in written])


def same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    """Whether two rows are equal to the last bit."""
    return first.keys() == second.keys() and all(
        first[key].dtype == second[key].dtype and np.array_equal(first[key], second[key]) for key in first
    )
