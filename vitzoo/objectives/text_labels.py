"""What an encoder is fine-tuned to: a class for a text or for each of its words, or a number for it."""

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from vitzoo.objectives.base import Batch, Sums, TrainingData
from vitzoo.objectives.classification import Classification
from vitzoo.objectives.inputs import numbers_of
from vitzoo.objectives.language_modelling import TokenObjective, real, summed
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class SequenceClassification(Classification):
    """One class for each text or pair, by an encoder's first token; the loss is that of images."""

    TAKES: ClassVar[str] = "text"
    HEAD: ClassVar[str] = "classes"
    EVALUATOR: ClassVar[str] = "classification"
    rows: ClassVar[str] = "labelled"


@dataclasses.dataclass(frozen=True)
class TokenClassification(TokenObjective):
    """Of an encoder: the mean cross-entropy over the words of a batch, each read at its first token, as in BERT."""

    rows: str = setting("tagged", "of what the rows are made", choices=("tagged",))

    HEAD: ClassVar[str] = "token_classes"
    EVALUATOR: ClassVar[str] = "token_classification"


TERM = "squared_error"


@dataclasses.dataclass(frozen=True)
class Regression:
    """Of an encoder: the mean squared error over the rows of a batch, as BERT is fine-tuned to STS-B.

    Batches hold `tokens` and what tells where they stand, `label` float [B], and `example_weight` float [B] (0: a row
    that only fills up the batch). Labels are read as numbers, whatever `data.regression` says, and aren't scaled:
    numbers far from -10 to 10 are better scaled in the data.
    """

    TAKES: ClassVar[str] = "text"
    HEAD: ClassVar[str] = "number"
    EVALUATOR: ClassVar[str] = "regression"
    rows: ClassVar[str] = "labelled"
    term_weights: ClassVar[dict[str, float]] = {TERM: 1.0}

    def bind(self, info: TrainingData, model_config: Any = None) -> Self:
        """This objective for given data: the same for all."""
        return self

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """What the sum is divided by: the rows of the whole global batch."""
        return {TERM: real(batch).sum()}

    def sums(self, model: Any, batch: Batch, key: jax.Array | None = None, *, train: bool = True, **_: Any) -> Sums:
        """Sums over the rows of a (micro-)batch: `{term: sum}`, `{metric: (sum, count)}` and no notes."""
        errors = numbers_of(model, batch, train=train, key=key) - batch["label"]
        rows = real(batch)
        metrics = {"absolute_error": (summed(jnp.abs(errors), rows), rows.sum())}
        return {TERM: summed(jnp.square(errors), rows)}, metrics, {}
