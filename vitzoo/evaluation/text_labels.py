"""The evaluators of what texts and words are labelled with: words' classes and the entities that they tag, and numbers.

Entities are counted as CoNLL's script counts them (Tjong Kim Sang and De Meulder 2003): one is right where its kind,
its first and its last word are.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.inputs import Inputs
from vitzoo.data.sources.base import Source
from vitzoo.errors import UserError
from vitzoo.evaluation.classification import rank
from vitzoo.evaluation.label_metrics import f1_scores
from vitzoo.evaluation.settings import Rows, TextEvaluator, check_rows
from vitzoo.models.base import ModelConfig
from vitzoo.objectives.inputs import logits_of, numbers_of
from vitzoo.objectives.language_modelling import scored, token_losses
from vitzoo.schema import setting

TAG = re.compile(r"([BIESLU])-(.+)")
OUTSIDE = "O"

Entity = tuple[int, str, int, int]
"""Text, kind, first word, and the word after the last."""


def are_entity_tags(names: Sequence[str]) -> bool:
    """Whether classes are tags of entities: O, and B-, I- (E-, L-, S-, U-) before a kind."""
    return OUTSIDE in names and len(names) > 1 and all(name == OUTSIDE or TAG.fullmatch(name) for name in names)


def entities(tags: Sequence[str], texts: Sequence[int] | np.ndarray) -> Iterator[Entity]:
    """The entities of words in a row.

    One begins at B, S or U, at another kind than before, and after O, E, L, S or U; so tags that never begin (I-PER
    after O) are entities too, as in CoNLL.

    Args:
        tags: of each word.
        texts: the number of the text that each word is of; no entity goes over its end.
    """
    start, kind, before = 0, "", OUTSIDE  # of the entity under way, where there is a kind
    for place, tag in enumerate([*tags, OUTSIDE]):
        mark, now = _parted(tag)
        other_text = place == len(tags) or (place > 0 and texts[place] != texts[place - 1])
        begins = mark in "BSU" or before in "OELSU" or now != kind or other_text
        if kind and (begins or not now):
            yield int(texts[start]), kind, start, place
        if now and begins:
            start = place
        kind, before = now, mark


def entity_scores(
    label: Sequence[str], said: Sequence[str], texts: Sequence[int] | np.ndarray
) -> tuple[float, float, float]:
    """Precision, recall and F1 of entities; a ratio over nothing is 0, as in CoNLL's script and in seqeval.

    Args:
        label: the true tag of each word.
        said: the one predicted.
        texts: the number of the text that each word is of.
    """
    true, found = set(entities(label, texts)), set(entities(said, texts))
    right = len(true & found)
    return right / max(len(found), 1), right / max(len(true), 1), 2 * right / max(len(true) + len(found), 1)


def _parted(tag: str) -> tuple[str, str]:
    match = TAG.fullmatch(tag)
    return (match[1], match[2]) if match else (OUTSIDE, "")


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

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> Self:
        """Refuses data or a model without classes of words."""
        check_rows("token_classification", inputs, config, "tagged", "token_classes")
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

    def outputs(self, model: Callable[..., jax.Array], batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device.

        Returns:
            `example_weight` float32 [batch] and, [batch, tokens] each: `word` (its number, at its first token; else 0),
            `label`, `prediction` and `rank` (of the label among the classes, 0 is the top) int32, `probability` (of
            the prediction) and `loss` float32.
        """
        logits, label = logits_of(model, batch, train=False).astype(jnp.float32), batch["targets"]
        places = rank(logits.reshape(-1, logits.shape[-1]), label.reshape(-1)).reshape(label.shape)
        return {
            "example_weight": batch["example_weight"],
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


@dataclasses.dataclass(frozen=True)
class RegressionEvaluator(TextEvaluator):
    """Mean squared error, and the correlations of Pearson and of Spearman (equal numbers share a rank), which GLUE
    reports for STS-B. A correlation with numbers that are all the same is undefined.
    """

    ROWS: ClassVar[tuple[str, ...]] = ("labelled",)
    BETTER: ClassVar[dict[str, Callable]] = {"mean_squared_error": min, "pearson": max, "spearman": max}

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> Self:
        """Refuses data or a model without numbers."""
        check_rows("regression", inputs, config, "labelled", "number")
        return self

    def outputs(self, model: Callable[..., jax.Array], batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device: float32 [batch], `label` and `prediction`."""
        prediction = numbers_of(model, batch, train=False)
        return {"example_weight": batch["example_weight"], "label": batch["label"], "prediction": prediction}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: there are no rows.
        """
        label, said = (rows[name].astype(np.float64) for name in ("label", "prediction"))
        if not len(label):
            raise UserError("split", self.split, "holds no example, so there is nothing to evaluate")
        return {
            "mean_squared_error": float(np.square(label - said).mean()),
            "pearson": correlation(label, said),
            "spearman": correlation(ranks(label), ranks(said)),
        }


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of two float64 [n]; NaN where one doesn't vary."""
    if not np.ptp(first) or not np.ptp(second):
        return float("nan")
    first, second = first - first.mean(), second - second.mean()
    return float((first * second).sum() / np.sqrt(np.square(first).sum() * np.square(second).sum()))


def ranks(values: np.ndarray) -> np.ndarray:
    """The place of each of float64 [n] among all, from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
