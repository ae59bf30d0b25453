"""What a model is asked of each thing that is given to it: from the value to arrays, and from numbers to a row."""

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypedDict, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo.data.image_files import BadImage
from vitzoo.data.rows import Batch
from vitzoo.data.user_inputs import Input
from vitzoo.errors import UserError
from vitzoo.evaluation.features import WithFeatures
from vitzoo.objectives.inputs import logits_of
from vitzoo.weights.info import Info

OnDevice = Mapping[str, jax.Array]
"""A batch, or what is kept of it."""
Outputs = Mapping[str, np.ndarray]
"""What is kept of one row of a batch."""
Arrays = Mapping[str, np.ndarray | np.generic]
"""A value as its processor makes it."""
TOP = 5


class ClassAnswer(TypedDict):
    """A class that a value may be of."""

    label: str
    index: int
    probability: float


class TokenAnswer(TypedDict):
    """A token that may stand somewhere."""

    token: str
    id: int
    probability: float


class Prediction(TypedDict, total=False):
    """What is said of one input: the fields by which it is known, the answer of one kind of models, and why there is
    none; see `predict`.
    """

    file: str
    text: str
    first: str
    second: str
    words: list[str]
    top: list[ClassAnswer]
    value: float | None
    labels: list[str | None]
    probabilities: list[float | None]
    masks: list[list[TokenAnswer]]
    filled: str | None
    next: list[TokenAnswer]
    embedding: list[float]
    error: str | None


class Unusable(Exception):
    """Something of which a model can say nothing.

    Args:
        reason: why.
        is_read: whether its value was read, so that it has an embedding at least.
    """

    def __init__(self, reason: str, *, is_read: bool = True):
        self.reason, self.is_read = reason, is_read
        super().__init__(reason)


One = TypeVar("One", bound=Input)
Made = TypeVar("Made")


class Task(abc.ABC, Generic[One, Made]):
    """What a kind of model is asked of inputs of a kind (`One`), which are made into arrays first (`Made`).

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

    def __init__(self, model: nnx.Module, info: Info):
        self.info, self.config = info, info.config
        self.embeds = self.has_embedding(model)

    @abc.abstractmethod
    def has_embedding(self, model: nnx.Module) -> bool:
        """Whether a model gives an embedding."""

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

    def notes(self, given: Sequence[One]) -> tuple[str, list[str]]:
        """What of the inputs the model won't read, in a few words, and warnings."""
        return "", []

    @abc.abstractmethod
    def asked(self, one: One) -> Made:
        """A value as arrays.

        Raises:
            Unusable: nothing can be said of it.
        """

    def embeddable(self, one: One) -> Made:
        """A value as arrays whose embedding is wanted; Unusable as `asked`."""
        return self.asked(one)

    @abc.abstractmethod
    def batch(self, asked: Sequence[Made], size: int) -> Batch:
        """Values as one batch, filled up with rows that hold nothing."""

    @abc.abstractmethod
    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        """What is kept of each row of a batch, on the device. `top` is how many answers are wanted."""

    @abc.abstractmethod
    def embedding(self, model: nnx.Module, batch: OnDevice) -> jax.Array:
        """What the head sees of each row, float32 [batch, width]; computed only where the model `embeds`."""

    @abc.abstractmethod
    def row(self, one: One, asked: Made, outputs: Outputs, top: int) -> Prediction:
        """The answer as plain values, from the row's own outputs."""

    @abc.abstractmethod
    def nothing(self) -> Prediction:
        """The answer where there is none."""


class ArrayTask(Task[Input, Arrays]):
    """What a model of images or of other arrays is asked, which it is given as evaluation gives them."""

    def has_embedding(self, model: nnx.Module) -> bool:
        return isinstance(model, WithFeatures)

    def asked(self, one: Input) -> Arrays:
        try:
            return self.info.processor.example(one, self.config)
        except (BadImage, OSError) as error:
            raise Unusable(getattr(error, "reason", str(error)), is_read=False) from error

    def batch(self, asked: Sequence[Arrays], size: int) -> Batch:
        rows = [*asked, *[self.info.processor.blank(self.config)] * (size - len(asked))]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def embedding(self, model: nnx.Module, batch: OnDevice) -> jax.Array:
        return self._features(model, self._prepared(batch))["pooled"].astype(jnp.float32)

    def _prepared(self, batch: OnDevice) -> OnDevice:
        return self.info.processor.prepare(self.config, None, train=False)(batch, None)

    def _features(self, model: nnx.Module, batch: OnDevice) -> OnDevice:
        """The model's `pooled` and `logits`."""
        assert isinstance(model, WithFeatures)
        seen = model.features(batch[self.info.processor.name])
        if lacking := {"pooled", "logits"} - set(seen):
            raise UserError("checkpoint", self.info.checkpoint, f"its model's `features` give no {min(lacking)}")
        return seen


class Classes(Task[One, Made]):
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

    def _probability(self, logits: jax.Array) -> jax.Array:
        """Of each class; of several labels each by itself."""
        return (jax.nn.sigmoid if self.info.multi_label else jax.nn.softmax)(logits.astype(jnp.float32))

    def row(self, one: One, asked: Made, outputs: Outputs, top: int) -> Prediction:
        values, labels = outputs["probability"], self.info.labels
        order = np.argsort(-values, kind="stable")[:top]  # equal ones by class number
        return {"top": [{"label": labels[i], "index": int(i), "probability": float(values[i])} for i in order]}

    def nothing(self) -> Prediction:
        return {"top": []}


class ArrayClasses(Classes[Input, Arrays], ArrayTask):
    """Which class an image, or another array, is of."""

    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        prepared = self._prepared(batch)
        if not self.embeds:
            return {"probability": self._probability(logits_of(model, prepared, train=False))}
        seen = self._features(model, prepared)
        return {"probability": self._probability(seen["logits"]), "embedding": seen["pooled"].astype(jnp.float32)}
