"""Classification of images and of texts: softmax or sigmoid cross-entropy."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import UserError
from vitzoo.objectives.base import Batch, Sums, TrainingData
from vitzoo.objectives.inputs import logits_of
from vitzoo.schema import setting

TERM = "classification"
SMALLEST, LARGEST = 1e-30, 1e30  # class weights of which a batch's sum is a float32, and so are their gradients


@dataclasses.dataclass(frozen=True)
class Classification:
    """One class per example by softmax, or, by sigmoid, a yes or no for each class (several labels per example).

    Losses are float32. The loss of an example under sigmoid is the sum over the classes, as in Beyer et al. 2020
    (Are we done with ImageNet?). That of DeiT III (Touvron et al. 2022) is `loss=sigmoid, binary_labels=true,
    sum_classes=false`.
    """

    loss: str = setting("softmax", "sigmoid is for several labels per image too", choices=("softmax", "sigmoid"))
    label_smoothing: float = setting(
        0.0, "labels become (1 − this) · label + this / classes (Szegedy et al. 2016)", minimum=0.0, below=1.0
    )
    binary_labels: bool = setting(
        False,
        "under sigmoid, an image that mixup or CutMix mixed is a whole yes for each of its classes, not a part",
    )
    sum_classes: bool = setting(True, "under sigmoid, the loss of an image is the sum over the classes; else the mean")
    class_weights: str | tuple[float, ...] = setting(
        "",
        "a factor for each class, in the classes' order, or `balanced`: examples / (classes · examples of the class); "
        "with several labels per image, of the positive part, balanced: negatives / positives",
    )

    CLASSES: ClassVar[bool] = True
    """Whether the model is to give logits [batch, num_classes]."""

    def check(self) -> None:
        for field, usual in (("binary_labels", False), ("sum_classes", True)):
            if getattr(self, field) != usual and self.loss != "sigmoid":
                raise UserError(field, not usual, f"acts with loss=sigmoid only; loss is {self.loss}")
        if self.binary_labels and self.label_smoothing:
            raise UserError(
                "label_smoothing", self.label_smoothing, "must be 0 with binary_labels, which knows 0 and 1"
            )
        weights = self.class_weights
        if isinstance(weights, str):
            if weights not in ("", "balanced"):
                raise UserError("class_weights", weights, "`balanced`, or a number for each class; empty is off")
        elif not weights or min(weights) < 0 or max(weights) <= 0:
            raise UserError("class_weights", weights, "numbers from 0 on, not all 0")
        elif not all(SMALLEST <= weight <= LARGEST for weight in weights if weight):
            raise UserError("class_weights", weights, f"numbers from {SMALLEST:g} to {LARGEST:g}, or 0")

    def bind(self, info: TrainingData, model_config: Any) -> "BoundClassification":
        """The objective for these data.

        Args:
            info: of the training split, with `multi_label` and `class_counts` (examples in each class, or `None`).
            model_config: the model's, of which `num_classes` counts.

        Raises:
            UserError: softmax over data with several labels per image; class weights that don't fit.
        """
        if info.multi_label and self.loss == "softmax":
            message = "these data have several labels per image; use --config.objective.loss=sigmoid"
            raise UserError("objective.loss", "softmax", message)
        num_classes = model_config.num_classes
        weights = self._weights(info, num_classes)
        return BoundClassification(
            loss=self.loss,
            label_smoothing=self.label_smoothing,
            weights=weights,
            num_classes=num_classes,
            multi_label=info.multi_label,
            binary_labels=self.binary_labels,
            sum_classes=self.sum_classes,
        )

    def _weights(self, info: TrainingData, num_classes: int) -> tuple[float, ...] | None:
        weights = self.class_weights
        if weights == "":
            return None
        if weights == "balanced":
            if info.class_counts is None or len(info.class_counts) != num_classes:
                message = f"the data don't say how many examples each of the {num_classes} classes has; give numbers"
                raise UserError("objective.class_weights", weights, message)
            return _balanced(info.class_counts, getattr(info, "n", sum(info.class_counts)), info.multi_label)
        if len(weights) != num_classes:
            raise UserError("objective.class_weights", weights, f"{len(weights)} numbers for {num_classes} classes")
        return tuple(float(weight) for weight in weights)


def _balanced(counts: Sequence[int], examples: int, multi_label: bool) -> tuple[float, ...]:
    """Factors under which every class weighs the same; 1 for a class without examples."""
    found = np.maximum(np.asarray(counts, np.float64), 1)
    factors = (examples - found) / found if multi_label else examples / (len(counts) * found)
    return tuple(float(f) if n else 1.0 for f, n in zip(factors, counts, strict=True))


@dataclasses.dataclass(frozen=True)
class BoundClassification:
    """`Classification` for given data.

    Batches hold what the model takes, `label` int [B] or float [B, classes] (soft, or several), and `example_weight`
    float [B]: rows of weight 0 are padding and enter nothing. The loss is the mean over examples, weighted by
    `example_weight` and, under softmax, by the class weights (soft labels: their mean under the label).
    """

    loss: str
    label_smoothing: float
    weights: tuple[float, ...] | None
    num_classes: int
    multi_label: bool
    binary_labels: bool = False
    sum_classes: bool = True

    @property
    def term_weights(self) -> dict[str, float]:
        """Factor of each term in the differentiated loss."""
        return {TERM: 1.0}

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """What each term's sum is divided by, from the whole global batch."""
        return {TERM: self._row_weights(batch).sum()}

    def sums(self, model: Any, batch: Batch, key: jax.Array | None = None, *, train: bool = True, **_: Any) -> Sums:
        """Sums over the rows of a (micro-)batch: `{term: sum}`, `{metric: (sum, count)}` and no notes."""
        logits = logits_of(model, batch, train=train, key=key).astype(jnp.float32)
        return {TERM: self.loss_sum(logits, batch)}, self.metrics(logits, batch), {}

    def loss_sum(self, logits: jax.Array, batch: Batch) -> jax.Array:
        """The weighted losses of the rows, summed; logits float32 [B, classes]."""
        rows = self._row_weights(batch)
        return (rows * jnp.where(rows > 0, self._losses(logits, self._labels(batch)), 0)).sum()

    def _labels(self, batch: Batch) -> jax.Array:
        label = batch["label"]
        return label.astype(jnp.float32) if label.ndim == 2 else jax.nn.one_hot(label, self.num_classes)

    def _row_weights(self, batch: Batch) -> jax.Array:
        label = batch["label"]
        weight = batch.get("example_weight", jnp.ones(label.shape[:1])).astype(jnp.float32)
        if self.weights is None or self.multi_label:
            return weight
        return weight * (self._labels(batch) @ jnp.asarray(self.weights, jnp.float32))

    def _losses(self, logits: jax.Array, labels: jax.Array) -> jax.Array:
        labels = (labels > 0).astype(jnp.float32) if self.binary_labels else labels
        labels = (1 - self.label_smoothing) * labels + self.label_smoothing / self.num_classes
        if self.loss == "softmax":
            return -(labels * jax.nn.log_softmax(logits)).sum(-1)
        positive = jnp.asarray(self.weights, jnp.float32) if self.multi_label and self.weights is not None else 1.0
        parts = positive * labels * jax.nn.log_sigmoid(logits) + (1 - labels) * jax.nn.log_sigmoid(-logits)
        return -parts.sum(-1) if self.sum_classes else -parts.mean(-1)

    def metrics(self, logits: jax.Array, batch: Batch) -> dict[str, tuple[jax.Array, jax.Array]]:
        """`{metric: (sum, count)}` of the rows."""
        label = batch["label"]
        weight = batch.get("example_weight", jnp.ones(label.shape[:1])).astype(jnp.float32)
        if self.multi_label:
            right = ((logits > 0) == (label > 0.5)).mean(-1)
            # of yes and no, not of images: mostly right even where nothing is found
            return {"label_accuracy": ((weight * right).sum(), weight.sum())}
        target = label.argmax(-1) if label.ndim == 2 else label
        place = _rank(logits, target)
        metrics = {"accuracy": place < 1} | ({"top5_accuracy": place < 5} if self.num_classes > 5 else {})
        return {name: ((weight * right).sum(), weight.sum()) for name, right in metrics.items()}


def _rank(logits: jax.Array, target: jax.Array) -> jax.Array:
    """How many classes come before the target, equal logits in the classes' order: 0 where arg-max is right."""
    classes = jnp.arange(logits.shape[-1])
    own = jnp.take_along_axis(logits, target[:, None], -1)
    after = (logits < own) | ((logits == own) & (classes >= target[:, None]))
    return (~after).sum(-1)  # so that a NaN comes before everything, and no arg-max of NaNs is right
