"""The evaluator of words' classes: parts of speech, named entities."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import UserError
from vitzoo.evaluation.classification import f1_scores, rank
from vitzoo.evaluation.settings import TextEvaluator, check_rows
from vitzoo.evaluation.text_entities import are_entity_tags, entity_scores
from vitzoo.objectives.inputs import logits_of
from vitzoo.objectives.language_modelling import scored, token_losses
from vitzoo.schema import setting

Rows = Mapping[str, np.ndarray]
ENTITIES = ("entity_precision", "entity_recall", "entity_f1")


@dataclasses.dataclass(frozen=True)
class TokenClassificationEvaluator(TextEvaluator):
    """Accuracy, loss and F1 of words, each counted once; and, where the classes are tags such as B-PER, I-PER and O,
    precision, recall and F1 of whole entities, as CoNLL counts them. Words that a too long text lost aren't counted.
    """

    outside: str = setting(
        "O",
        "class of words that are nothing in particular, left out of the averages of F1; empty: none",
        execution=True,
    )
    all_classes: bool = setting(
        False,
        "where the data have only some of the model's classes, predict among all of them; else among the data's, as "
        "ImageNet-A and -R are scored",
        execution=True,
    )

    CLASSES: ClassVar[bool] = True
    ROWS: ClassVar[tuple[str, ...]] = ("tagged",)
    LABEL: ClassVar[str] = "targets"
    BETTER: ClassVar[dict[str, Callable]] = {
        "accuracy": max,
        "f1_macro": max,
        "f1_micro": max,
        "loss": min,
        **dict.fromkeys(ENTITIES, max),
    }

    def bind(self, *, feed: Any, source: Any, config: Any) -> Self:
        """Refuses data or a model without classes of words."""
        check_rows("token_classification", feed, config, "tagged", "token_classes")
        return self

    def of_classes(self, names: tuple[str, ...] | None) -> "Tagging":
        """What measures classes of these names."""
        return Tagging(self.split, self.outside, names)


@dataclasses.dataclass(frozen=True)
class Tagging:
    """`TokenClassificationEvaluator` for given classes."""

    split: str
    outside: str
    names: tuple[str, ...] | None

    def metric_names(self, multi_label: bool, num_classes: int | None) -> tuple[str, ...]:
        """The metrics that such data give and that a best checkpoint can be chosen by."""
        entities = ENTITIES if are_entity_tags(self.names or ()) else ()
        return "accuracy", "f1_macro", "f1_micro", "loss", *entities

    def outputs(self, model: Any, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device.

        Returns:
            `weight` float32 [batch] and, [batch, tokens] each: `word` (its number, at its first token; else 0),
            `label`, `prediction` and `rank` (of the label among the classes, 0 is the top) int32, `probability` (of
            the prediction) and `loss` float32.
        """
        logits, label = logits_of(model, batch, train=False).astype(jnp.float32), batch["targets"]
        places = rank(logits.reshape(-1, logits.shape[-1]), label.reshape(-1)).reshape(label.shape)
        return {
            "weight": batch["weight"],
            "word": jnp.where(scored(batch) > 0, batch["words"], 0),
            "label": label,
            "prediction": jnp.argmax(logits, -1).astype(jnp.int32),
            "probability": jax.nn.softmax(logits).max(-1),
            "rank": places,
            "loss": token_losses(logits, label),
        }

    def examples(self, rows: Rows) -> dict[str, np.ndarray]:
        """The words of rows one below the other: for each what `ClassificationEvaluator` keeps of an example, and
        `word`, its number in its text, from 1.
        """
        text, place = np.nonzero(rows["word"])
        kept = ("word", "label", "prediction", "probability", "rank", "loss")
        flat = {key: rows[key][text, place] for key in kept}
        return flat | {key: rows[key][text] for key in ("position", "id") if key in rows} | {"text": text}

    def metrics(self, rows: Rows, num_classes: int) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host; fractions are 0..1.

        Raises:
            UserError: there are no words, or a label lies outside the classes.
        """
        words = self.examples(rows)
        label, said = words["label"], words["prediction"]
        if not len(label):
            raise UserError("split", self.split, "holds no word that is scored, so there is nothing to evaluate")
        if label.max() >= num_classes:
            raise UserError("label", label.max(), f"lies outside the model's classes, 0 to {num_classes - 1}")
        names = self.names or tuple(str(number) for number in range(num_classes))
        right, without = words["rank"] == 0, [names.index(self.outside)] if self.outside in names else []
        macro, micro = f1_scores(label, said, right, num_classes, without)
        metrics = {
            "accuracy": float(right.mean(dtype=np.float64)),
            "f1_macro": macro,
            "f1_micro": micro,
            "loss": float(words["loss"].mean(dtype=np.float64)),
        }
        if are_entity_tags(names):
            true, found = ([names[number] for number in numbers] for numbers in (label, said))
            metrics |= dict(zip(ENTITIES, entity_scores(true, found, words["text"]), strict=True))
        return metrics | {"words": len(label)}
