"""The evaluator of classifiers: what is computed per example on device, and the exact metrics of a whole pass."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax

from vitzoo.errors import UserError
from vitzoo.evaluation.present import Present
from vitzoo.evaluation.settings import Evaluator, check_rows
from vitzoo.objectives.inputs import logits_of
from vitzoo.schema import setting

Rows = Mapping[str, np.ndarray]


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

    def examples_of(self, feed: Any, data: Any) -> Any:
        """Those of `data`, by name of the classes that occur where that is asked for."""
        source = feed.source(data)
        return Present(source) if self.present_classes else source

    def bind(self, *, feed: Any, source: Any, config: Any) -> Self:
        """Refuses texts without classes."""
        if hasattr(feed, "rows_of"):
            check_rows("classification", feed, config, "labelled", "classes")
        return self

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each example, computed on device.

        Args:
            model: images `[batch, height, width, channels]`, or tokens `[batch, tokens]`, to logits `[batch, classes]`.
            batch: `image` (float, normalised) or `tokens`, `label`, `weight`.

        Returns:
            Arrays of `[batch]`: `weight`, `label`, `loss`, and for one label `prediction`, `probability` (of the
            prediction) and `rank` (of the label: 0 is the top; ties go to the lower class as in arg-max). For several
            labels `label`, `logit` and `probability` are `[batch, classes]`.
        """
        logits = logits_of(model, batch, train=False).astype(jnp.float32)
        label = batch["label"]
        kept = {"weight": batch["weight"], "label": label}
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


def calibration_error(probability: np.ndarray, correct: np.ndarray, bins: int = 15) -> float:
    """The expected calibration error (Guo et al. 2017, https://arxiv.org/abs/1706.04599, equation 3).

    Predictions are sorted by probability into `bins` intervals (0, 1/bins], (1/bins, 2/bins] ..., one on an edge
    into the lower, and the error is Σ over bins of (share of the examples in it) · |accuracy in it − mean probability
    in it|.

    Args:
        probability: of the predicted class, `[n]`.
        correct: whether the prediction is right, bool `[n]`.
    """
    if not np.isfinite(probability).all():
        return float("nan")
    # in float32, which is what probabilities are: np.float32(0.2) lies above 3 / 15 in float64, and is that edge
    edges = (np.arange(1, bins) / bins).astype(np.float32)
    which = np.searchsorted(edges, probability.astype(np.float32), side="left")
    probability = probability.astype(np.float64)
    gap = np.bincount(which, weights=correct - probability, minlength=bins)
    return float(np.abs(gap).sum() / len(probability))


def multi_label_metrics(rows: Rows) -> dict[str, Any]:
    """Mean average precision, F1 at probability 0.5, and loss, of labels, logits and probabilities `[n, classes]`.

    The mean average precision leaves out classes that no example has, whose average precision is undefined; how many
    those are is `classes_without_positives`. The macro F1 leaves out classes that are neither true nor predicted, as
    scikit-learn's with `zero_division=nan`; one that is predicted and never true counts as 0. The micro F1 counts every
    class.
    """
    truth = rows["label"] > 0.5
    present = truth.any(axis=0)
    metrics = {"loss": float(rows["loss"].mean(dtype=np.float64)), "classes_without_positives": int((~present).sum())}
    metrics |= dict.fromkeys(("mean_average_precision", "f1_macro", "f1_micro"), float("nan"))
    if not np.isfinite(rows["logit"]).all():
        return metrics
    if present.any():
        metrics["mean_average_precision"] = float(average_precisions(rows)[present].mean())
    hits, said, had = agreement(truth, rows["probability"] > 0.5)
    counted = said + had > 0
    if counted.any():
        metrics["f1_macro"] = float((2 * hits[counted] / (said + had)[counted]).mean())
        metrics["f1_micro"] = float(2 * hits.sum() / (said + had).sum())
    return metrics


def f1_scores(
    label: np.ndarray, said: np.ndarray, right: np.ndarray, classes: int, without: Sequence[int] = ()
) -> tuple[float, float]:
    """F1 averaged over the classes that are true or predicted, and of all examples together, as scikit-learn's; NaN
    where there is no such class.

    Args:
        label: the true class of each example, int `[n]`.
        said: the one predicted, int `[n]`.
        right: whether that is right, bool `[n]`.
        classes: how many there are.
        without: classes that are left out of both.
    """
    hits, said, had = (np.bincount(values, minlength=classes) for values in (label[right], said, label))
    kept = np.ones(classes, bool)
    kept[list(without)] = False
    present = kept & (said + had > 0)
    if not present.any():
        return float("nan"), float("nan")
    both = (said + had).astype(np.float64)
    return float((2 * hits[present] / both[present]).mean()), float(2 * hits[kept].sum() / both[kept].sum())


def average_precisions(rows: Rows) -> np.ndarray:
    """Average precision of every class, float64 `[classes]`; NaN for a class that no example has.

    By logits: in float32, probabilities of sure predictions are all 1, and their order is lost.
    """
    from sklearn.metrics import average_precision_score

    truth, logit = rows["label"] > 0.5, rows["logit"]
    scores = [
        average_precision_score(truth[:, c], logit[:, c]) if truth[:, c].any() else np.nan
        for c in range(truth.shape[1])
    ]
    return np.array(scores, np.float64)


def agreement(truth: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often each class was rightly said, said, and true, int64 `[classes]` each, from bool `[n, classes]` twice."""
    return (truth & said).sum(axis=0), said.sum(axis=0), truth.sum(axis=0)
