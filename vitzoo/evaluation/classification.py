"""The evaluators of classifiers: one label or several to an example, several right ones to choose from, calibration."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax

from vitzoo.data.inputs import Inputs
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source
from vitzoo.errors import UserError
from vitzoo.evaluation.classes import PresentClasses
from vitzoo.evaluation.label_metrics import calibration_error, f1_scores, multi_label_metrics
from vitzoo.evaluation.settings import Evaluator, Rows, check_rows
from vitzoo.models.base import ModelConfig
from vitzoo.objectives.inputs import logits_of
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class ClassificationEvaluator(Evaluator):
    """Accuracy, top-5, macro-F1, loss and calibration of one label each; mean average precision and F1 of several. Of
    images, and of texts.

    Labels of int `[batch]` are one class each, labels of float `[batch, classes]` are several (0 or 1 each).
    The loss is the plain one: no label smoothing and no class weights, so that runs that train differently compare.
    """

    calibration_bins: int = setting(15, "bins of equal width for the calibration error", minimum=2, execution=True)
    loss: str = setting(
        "auto",
        "auto: softmax for one label, sigmoid for several",
        choices=("auto", "softmax", "sigmoid"),
        execution=True,
    )

    all_classes: bool = setting(
        False,
        "where the data have only some of the model's classes, predict among all of them; else among the data's, as "
        "ImageNet-A and -R are scored",
        execution=True,
    )
    present_classes: bool = setting(
        False,
        "the data's classes are those that its examples have, though it may name more, as ImageNet-A and -R do",
        execution=True,
    )

    CLASSES: ClassVar[bool] = True
    """Whether the model's logits are classes, to be matched with the data's by name."""
    ROWS: ClassVar[tuple[str, ...]] = ("labelled",)
    BETTER: ClassVar[dict[str, Callable]] = {
        "accuracy": max,
        "top5_accuracy": max,
        "mean_average_precision": max,
        "f1_macro": max,
        "f1_micro": max,
        "loss": min,
        "calibration_error": min,
    }

    @staticmethod
    def metric_names(multi_label: bool, num_classes: int) -> tuple[str, ...]:
        """The metrics that such data give and that a best checkpoint can be chosen by."""
        if multi_label:
            return "loss", "mean_average_precision", "f1_macro", "f1_micro"
        top5 = ("top5_accuracy",) if num_classes > 5 else ()
        return "accuracy", *top5, "f1_macro", "loss", "calibration_error"

    def examples_of(self, inputs: Inputs, data: Data) -> Source:
        """Those of `data`, by name of the classes that occur where that is asked for."""
        source = inputs.source(data)
        return PresentClasses(source) if self.present_classes else source

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> Self:
        """Refuses texts without classes."""
        check_rows("classification", inputs, config, "labelled", "classes", or_examples=True)
        return self

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each example, computed on device.

        Args:
            model: images `[batch, height, width, channels]`, or tokens `[batch, tokens]`, to logits `[batch, classes]`.
            batch: `image` (float, normalised) or `tokens`, `label`, `example_weight`.

        Returns:
            Arrays of `[batch]`: `example_weight`, `label`, `loss`, and for one label `prediction`, `probability` (of
            the prediction) and `rank` (of the label: 0 is the top; ties go to the lower class as in arg-max). For
            several labels `label`, `logit` and `probability` are `[batch, classes]`.
        """
        logits = logits_of(model, batch, train=False).astype(jnp.float32)
        label = batch["label"]
        kept = {"example_weight": batch["example_weight"], "label": label}
        if label.ndim == 2:
            loss, probability = sigmoid_loss(logits, label), jax.nn.sigmoid(logits)
            return kept | {"loss": loss, "logit": logits, "probability": probability}
        sigmoid = self.loss == "sigmoid"
        probability = jax.nn.sigmoid(logits) if sigmoid else jax.nn.softmax(logits)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, label)
        if sigmoid:
            loss = sigmoid_loss(logits, jax.nn.one_hot(label, logits.shape[-1]))
        prediction = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        best = jnp.take_along_axis(probability, prediction[:, None], axis=-1)[:, 0]
        return kept | {"loss": loss, "prediction": prediction, "probability": best, "rank": rank(logits, label)}

    def metrics(self, rows: Rows, num_classes: int) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host; fractions are 0..1.

        Args:
            rows: what `outputs` gave, for the real examples only.
            num_classes: how many the logits distinguish; the top-5 accuracy is given above 5.

        Raises:
            UserError: there are no rows, or a label lies outside the classes.
        """
        label = rows["label"]
        if not len(label):
            raise UserError("split", self.split, "holds no readable example, so there is nothing to evaluate")
        if label.ndim == 2:
            return multi_label_metrics(rows)
        if label.min() < 0 or label.max() >= num_classes:
            wrong = label.min() if label.min() < 0 else label.max()
            raise UserError("label", wrong, f"lies outside the model's classes, 0 to {num_classes - 1}")
        correct = rows["rank"] == 0
        metrics = {"accuracy": correct.mean(dtype=np.float64)}
        if num_classes > 5:
            metrics["top5_accuracy"] = (rows["rank"] < 5).mean(dtype=np.float64)
        metrics["f1_macro"], _ = f1_scores(label, rows["prediction"], correct, num_classes)
        metrics["loss"] = rows["loss"].mean(dtype=np.float64)
        metrics["calibration_error"] = calibration_error(rows["probability"], correct, self.calibration_bins)
        return {name: float(value) for name, value in metrics.items()}


def sigmoid_loss(logits: jax.Array, label: jax.Array) -> jax.Array:
    """Binary cross-entropy summed over the classes: `[batch, classes]` twice to `[batch]`."""
    return optax.sigmoid_binary_cross_entropy(logits, label).sum(axis=-1)


def rank(logits: jax.Array, label: jax.Array) -> jax.Array:
    """How many classes come before the label's, int32 `[batch]`: the larger logits, and among equals the lower index.

    A row with a logit that isn't finite ranks its label last: comparisons with NaN are all false, which would call it
    right.
    """
    classes = logits.shape[-1]
    own = jnp.take_along_axis(logits, label[:, None], axis=-1)
    before = (logits > own) | ((logits == own) & (jnp.arange(classes) < label[:, None]))
    finite = jnp.isfinite(logits).all(axis=-1)
    return jnp.where(finite, before.sum(axis=-1), classes).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class CalibrationEvaluator(Evaluator):
    """Of softmax probabilities p and one class y each, means over the examples:

    - `expected_calibration_error`: over 15 bins of equal width, |accuracy − mean probability| of the prediction,
      weighted by the fraction of examples (Guo et al. 2017, https://arxiv.org/abs/1706.04599, equation 3);
    - `negative_log_likelihood`: −log p[y], in nats;
    - `brier`: Σ over all classes c of (p[c] − [c = y])², from 0 to 2 (Brier 1950).
    """

    bins: int = setting(15, "of equal width, for the calibration error", minimum=2, execution=True)
    all_classes: bool = setting(
        False, "where the data have only some of the model's classes, predict among all of them", execution=True
    )

    CLASSES: ClassVar[bool] = True
    ROWS: ClassVar[tuple[str, ...]] = ("labelled",)
    BETTER: ClassVar[dict[str, Callable]] = {
        "accuracy": max,
        "expected_calibration_error": min,
        "negative_log_likelihood": min,
        "brier": min,
    }

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> Self:
        """Refuses several labels to an example."""
        check_rows("calibration", inputs, config, "labelled", "classes", or_examples=True)
        if source.info.multi_label:
            raise UserError(
                "data.name", source.info.name, "has several labels to an example; calibration is of one each"
            )
        return self

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each example, [batch]: as `ClassificationEvaluator`, its loss without any smoothing, and
        `brier`.
        """
        logits, label = logits_of(model, batch, train=False).astype(jnp.float32), batch["label"]
        probability = jax.nn.softmax(logits)
        apart = probability - jax.nn.one_hot(label, logits.shape[-1])
        return {
            "example_weight": batch["example_weight"],
            "label": label,
            "loss": optax.softmax_cross_entropy_with_integer_labels(logits, label),
            "prediction": jnp.argmax(logits, axis=-1).astype(jnp.int32),
            "probability": probability.max(-1),
            "rank": rank(logits, label),
            "brier": jnp.square(apart).sum(-1),
        }

    def metrics(self, rows: Rows, num_classes: int) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: there are no rows, or a label lies outside the classes.
        """
        label, right = rows["label"], rows["rank"] == 0
        if not len(label):
            raise UserError("split", self.split, "holds no readable example, so there is nothing to evaluate")
        if label.min() < 0 or label.max() >= num_classes:
            wrong = label.min() if label.min() < 0 else label.max()
            raise UserError("label", wrong, f"lies outside the model's classes, 0 to {num_classes - 1}")
        return {
            "accuracy": float(right.mean(dtype=np.float64)),
            "expected_calibration_error": float(calibration_error(rows["probability"], right, self.bins)),
            "negative_log_likelihood": float(rows["loss"].mean(dtype=np.float64)),
            "brier": float(rows["brier"].mean(dtype=np.float64)),
        }


@dataclasses.dataclass(frozen=True)
class RealAccuracyEvaluator(Evaluator):
    """`accuracy`: how often the top prediction is one of an image's labels (ReaL, Beyer et al. 2020,
    https://arxiv.org/abs/2006.07159). Images without a label aren't counted.
    """

    CLASSES: ClassVar[bool] = True
    LEFT_OUT: ClassVar[str] = "without a label or unreadable"
    BETTER: ClassVar[dict[str, Callable]] = {"accuracy": max}

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> Self:
        """Refuses data with one label to an example."""
        if not source.info.multi_label:
            raise UserError(
                "name", "real_accuracy", "is of data with several labels to an example; of one it is `classification`"
            )
        return self

    def metric_names(self, multi_label: bool, num_classes: int | None) -> tuple[str, ...]:
        """The metrics that a best checkpoint can be chosen by."""
        return tuple(self.BETTER)

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each example, [batch]: `example_weight`, 0 without a label; `prediction` and its
        `probability`; `label`, the prediction where that is right, else the first of the example's labels; `rank`, 0
        where it is right, else 1.
        """
        logits, labels = logits_of(model, batch, train=False).astype(jnp.float32), batch["label"] > 0.5
        prediction = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        hit = jnp.take_along_axis(labels, prediction[:, None], axis=-1)[:, 0]
        right = hit & jnp.isfinite(logits).all(-1)
        return {
            "example_weight": jnp.where(labels.any(-1), batch["example_weight"], 0),
            "label": jnp.where(hit, prediction, jnp.argmax(labels, axis=-1).astype(jnp.int32)),
            "prediction": prediction,
            "probability": jax.nn.softmax(logits).max(-1),
            "rank": jnp.where(right, 0, 1).astype(jnp.int32),
        }

    def metrics(self, rows: Rows, num_classes: int) -> dict[str, float]:
        """The metrics of a pass, on the host.

        Raises:
            UserError: no example has a label.
        """
        if not len(rows["rank"]):
            raise UserError("split", self.split, "holds no readable example with a label: nothing to evaluate")
        return {"accuracy": float((rows["rank"] == 0).mean(dtype=np.float64))}
