"""Classification with a teacher: a checkpoint's answers beside the labels."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from vitzoo.errors import UserError
from vitzoo.objectives.base import Batch, Frozen, Memory, Sums, TrainingData
from vitzoo.objectives.classification import TERM, BoundClassification, Classification
from vitzoo.objectives.inputs import given, logits_of
from vitzoo.schema import setting

TAUGHT = "distillation"


@dataclasses.dataclass(frozen=True)
class Distillation(Classification):
    """The labels' loss, and one towards a teacher that sees the same augmented images.

    `soft` is temperature² · KL(teacher ‖ student) of both softmaxes at a temperature (Hinton et al. 2015,
    https://arxiv.org/abs/1503.02531); `hard` the cross-entropy with the teacher's first choice (Touvron et al. 2021,
    DeiT, https://arxiv.org/abs/2012.12877). A student with `model.distillation=head` learns the labels with its class
    token's head and the teacher with the other; any other student learns both with its only one.
    """

    teacher: str = setting(
        "", "checkpoint to learn from: a run folder, RUN@best, a file of published weights", checkpoint=True
    )
    kind: str = setting("soft", "what of the teacher's answer is learned", choices=("soft", "hard"))
    temperature: float = setting(3.0, "divides the logits of teacher and student, for kind=soft", above=0.0)
    teacher_weight: float = setting(
        0.5, "fraction of the loss that is the teacher's part; the rest is the labels'", minimum=0.0, maximum=1.0
    )

    def check(self) -> None:
        super().check()
        if not self.teacher:
            raise UserError("teacher", None, "must be given: a checkpoint to learn from")

    def bind(self, info: TrainingData, model_config: Any, teacher: Frozen) -> "BoundDistillation":  # type: ignore[override]
        """The objective for these data; see `Classification.bind`.

        Raises:
            UserError: data with several labels per image, or of classes that the teacher doesn't know.
        """
        if info.multi_label:
            raise UserError("objective.name", "distillation", "these data have several labels per image; it needs one")
        labels = super().bind(info, model_config)
        return BoundDistillation(labels, self.kind, self.temperature, self.teacher_weight, teacher.classifier())


@dataclasses.dataclass(frozen=True)
class BoundDistillation:
    """`Distillation` for given data. `taught` makes the teacher's logits, [B, classes], of its weights and a batch."""

    labels: BoundClassification
    kind: str
    temperature: float
    teacher_weight: float
    taught: Callable[[Any, Batch], jax.Array]

    @property
    def term_weights(self) -> dict[str, float]:
        """Factor of each term in the differentiated loss."""
        return {TERM: 1 - self.teacher_weight, TAUGHT: self.teacher_weight}

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """What each term's sum is divided by, from the whole global batch."""
        return {**self.labels.counts(batch), TAUGHT: batch["example_weight"].astype(jnp.float32).sum()}

    def sums(
        self,
        model: Any,
        batch: Batch,
        key: jax.Array | None = None,
        *,
        train: bool = True,
        memory: Memory | None = None,
        **_: Any,
    ) -> Sums:
        """Sums over the rows of a (micro-)batch: `{term: sum}`, `{metric: (sum, count)}` and no notes."""
        assert memory is not None
        heads = _logits_by_head(model, batch, train=train, key=key)
        weight = batch["example_weight"].astype(jnp.float32)
        losses = jnp.where(weight > 0, self._losses(heads[-1], self.taught(memory["teacher"], batch)), 0)
        metrics = self.labels.metrics(sum(heads[1:], heads[0]) / len(heads), batch)
        return {TERM: self.labels.loss_sum(heads[0], batch), TAUGHT: (weight * losses).sum()}, metrics, {}

    def _losses(self, logits: jax.Array, teacher: jax.Array) -> jax.Array:
        if self.kind == "hard":
            choice = teacher.argmax(-1)
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), choice[:, None], -1)[:, 0]
        student = jax.nn.log_softmax(logits / self.temperature)
        taught = jax.nn.log_softmax(teacher / self.temperature)
        return self.temperature**2 * (jnp.exp(taught) * (taught - student)).sum(-1)


def _logits_by_head(model: Any, batch: Batch, **how: Any) -> tuple[jax.Array, ...]:
    """Float32 [B, classes] of each head of the model; of its only one, where it doesn't tell them apart."""
    if hasattr(model, "logits_by_head"):
        images, others = given(model, batch)
        return model.logits_by_head(images, **others, **how)
    return (logits_of(model, batch, **how).astype(jnp.float32),)
