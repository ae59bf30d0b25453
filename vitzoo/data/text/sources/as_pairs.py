"""Examples of other kinds as pairs of a source and a target, so that one text-to-text model can do every task
(Raffel et al. 2020, 2.4).
"""

from typing import Any

import numpy as np

from vitzoo.data.sources.base import SourceInfo
from vitzoo.data.text.sources.base import TextSource
from vitzoo.errors import Refused

TAKES = "source + target, prompt + completion, text + label, first + second + label"


def as_pairs(source: TextSource) -> TextSource:
    """The examples as pairs. The target of a labelled text is its class's name, or its number.

    Raises:
        Refused: they are of no kind that makes a pair.
    """
    fields = set(source.fields)
    if {"source", "target"} <= fields:
        return source
    if {"prompt", "completion"} <= fields or ("label" in fields and fields & {"text", "first"}):
        return PairSource(source)
    raise Refused("data.name", source.info.name, f"sequence to sequence takes {TAKES}; this is {', '.join(fields)}")


class PairSource:
    """See `as_pairs`."""

    fields = ("source", "target")

    def __init__(self, source: TextSource):
        self.source = source
        self.info: SourceInfo = source.info
        self.ids: np.ndarray = source.ids

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = self.source[index]
        if "prompt" in example:
            return {"source": example["prompt"], "target": example["completion"]}
        text = example.get("text")
        if text is None:
            text = f"first: {example['first']} second: {example['second']}"
        return {"source": text, "target": self._said(example["label"])}

    def _said(self, label: Any) -> str:
        return f"{label:g}" if self.info.classes is None else self.info.classes[label]

    def where(self, index: int) -> str:
        return self.source.where(index)
