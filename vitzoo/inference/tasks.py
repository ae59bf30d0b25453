"""What a model is asked of each thing that is given to it: from the value to arrays, and from numbers to a row."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.image_files import BadImage
from vitzoo.data.rows import Batch
from vitzoo.data.user_inputs import Input
from vitzoo.errors import UserError
from vitzoo.objectives.inputs import logits_of
from vitzoo.weights.info import Info

Outputs = Mapping[str, Any]
TOP = 5


class Unusable(Exception):
    """Something of which a model can say nothing.

    Args:
        reason: why.
        is_read: whether its value was read, so that it has an embedding at least.
    """

    def __init__(self, reason: str, *, is_read: bool = True):
        self.reason, self.is_read = reason, is_read
        super().__init__(reason)


class Task(abc.ABC):
    """What a kind of model is asked.

    This class gives images and arrays to a model, as evaluation does; one of text does it in its own way.

    Args:
        model: the model.
        info: of its checkpoint.
    """

    threads: ClassVar[int] = 8
    """In which values are read and made into arrays."""
    answers_embed: bool = True
    """Whether `outputs` give the embedding too, of a model that has one."""
    no_embedding: ClassVar[str] = "its model has no method `features`, so what its head sees isn't known"
    """Why a model has none, where it has none."""

    def __init__(self, model: Any, info: Info):
        self.info, self.config = info, info.config
        self.embeds = self.has_embedding(model)

    def has_embedding(self, model: Any) -> bool:
        """Whether a model says what its head sees."""
        return hasattr(model, "features")

    @property
    @abc.abstractmethod
    def says(self) -> str:
        """What is asked, in a few words."""

    @property
    @abc.abstractmethod
    def answers(self) -> int:
        """How many there are to choose from."""

    @property
    def usual(self) -> int:
        """How many of them a row lists by default."""
        return TOP

    @property
    def columns(self) -> Sequence[str] | None:
        """Classes that have a column each in a table of rows, where a row may be of several."""
        return None

    def notes(self, given: Sequence[Input]) -> tuple[str, list[str]]:
        """What of the inputs the model won't read, in a few words, and warnings."""
        return "", []

    def asked(self, one: Input) -> Any:
        """A value as arrays.

        Raises:
            Unusable: nothing can be said of it.
        """
        try:
            return self.info.processor.example(one, self.config)
        except (BadImage, OSError) as error:
            raise Unusable(getattr(error, "reason", str(error)), is_read=False) from error

    def embeddable(self, one: Input) -> Any:
        """A value as arrays whose embedding is wanted; Unusable as `asked`."""
        return self.asked(one)

    def batch(self, asked: Sequence[Any], size: int) -> Batch:
        """Values as one batch, filled up with rows that hold nothing."""
        rows = [*asked, *[self.info.processor.blank(self.config)] * (size - len(asked))]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    @abc.abstractmethod
    def outputs(self, model: Any, batch: Mapping[str, jax.Array], top: int) -> dict[str, jax.Array]:
        """What is kept of each row of a batch, on the device. `top` is how many answers are wanted."""

    def embedding(self, model: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
        """What the head sees of each row, float32 [batch, width]; computed only where the model `embeds`."""
        return self._features(model, self._prepared(batch))["pooled"].astype(jnp.float32)

    @abc.abstractmethod
    def row(self, one: Input, asked: Any, outputs: Outputs, top: int) -> dict[str, Any]:
        """The answer as plain values, from the row's own outputs."""

    @abc.abstractmethod
    def nothing(self) -> dict[str, Any]:
        """The answer where there is none."""

    def _prepared(self, batch: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        return self.info.processor.prepare(self.config, None, train=False)(batch, None)

    def _features(self, model: Any, batch: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        """The model's `pooled` and `logits`."""
        seen = model.features(batch[self.info.processor.name])
        if lacking := {"pooled", "logits"} - set(seen):
            raise UserError("checkpoint", self.info.checkpoint, f"its model's `features` give no {min(lacking)}")
        return seen


class Classes(Task):
    """Which class a value is of."""

    @property
    def says(self) -> str:
        return f"{self.info.num_classes} classes"

    @property
    def answers(self) -> int:
        return self.info.num_classes

    @property
    def usual(self) -> int:
        return self.answers if self.info.multi_label else TOP

    @property
    def columns(self) -> Sequence[str] | None:
        return self.info.labels if self.info.multi_label else None

    def outputs(self, model: Any, batch: Mapping[str, jax.Array], top: int) -> dict[str, jax.Array]:
        prepared = self._prepared(batch)
        if not self.embeds:
            return {"probability": self._probability(logits_of(model, prepared, train=False))}
        seen = self._features(model, prepared)
        return {"probability": self._probability(seen["logits"]), "embedding": seen["pooled"].astype(jnp.float32)}

    def _probability(self, logits: jax.Array) -> jax.Array:
        """Of each class; of several labels each by itself."""
        return (jax.nn.sigmoid if self.info.multi_label else jax.nn.softmax)(logits.astype(jnp.float32))

    def row(self, one: Input, asked: Any, outputs: Outputs, top: int) -> dict[str, Any]:
        values, labels = outputs["probability"], self.info.labels
        order = np.argsort(-values, kind="stable")[:top]  # equal ones by class number
        return {"top": [{"label": labels[i], "index": int(i), "probability": float(values[i])} for i in order]}

    def nothing(self) -> dict[str, Any]:
        return {"top": []}
