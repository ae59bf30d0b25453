"""Classification of texts, or of pairs of texts."""

import dataclasses
from typing import ClassVar

from vitzoo.objectives.classification import Classification


@dataclasses.dataclass(frozen=True)
class SequenceClassification(Classification):
    """One class for each text or pair, by an encoder's first token; the loss is that of images."""

    FEED: ClassVar[str] = "text"
    HEAD: ClassVar[str] = "classes"
    EVALUATOR: ClassVar[str] = "classification"
    rows: ClassVar[str] = "labelled"
