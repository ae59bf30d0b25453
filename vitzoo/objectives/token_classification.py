"""Classification of words: part of speech, named entities."""

import dataclasses
from typing import ClassVar

from vitzoo.objectives.tokens import TokenObjective
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class TokenClassification(TokenObjective):
    """Of an encoder: the mean cross-entropy over the words of a batch, each read at its first token, as in BERT."""

    rows: str = setting("tagged", "of what the rows are made", choices=("tagged",))

    HEAD: ClassVar[str] = "token_classes"
    EVALUATOR: ClassVar[str] = "token_classification"
