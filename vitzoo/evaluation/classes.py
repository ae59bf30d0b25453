"""Which of a model's classes a dataset's classes are (always by name, never by number alone), and those that occur."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo import spelling
from vitzoo.data.rows import Row
from vitzoo.data.sources.base import Source
from vitzoo.errors import UserError
from vitzoo.objectives.inputs import inputs_of


class Selected:
    """A model with some of its logits."""

    def __init__(self, model: Callable, columns: jax.Array):
        self._model, self._columns, self.INPUTS = model, columns, inputs_of(model)

    def __call__(self, *inputs: jax.Array, **options: jax.Array | bool | None) -> jax.Array:
        return self._model(*inputs, **options)[..., self._columns]


@dataclasses.dataclass(frozen=True)
class ClassMapping:
    """How a model's classes and a dataset's come together.

    Attributes:
        columns: for each class of the dataset its index in the model; `None` where they are the same already.
        restricted: predictions are among the dataset's classes; else among all of the model's.
        names: of the classes that predictions are among, `None` where nobody knows any.
        count: how many those are.
        text: one line that says what was done.
    """

    columns: tuple[int, ...] | None
    restricted: bool
    names: tuple[str, ...] | None
    count: int
    text: str

    def select(self, model: Callable) -> Callable:
        """The model with the logits that predictions are among, so that arg-max and softmax see no other class."""
        if self.columns is None or not self.restricted:
            return model
        return Selected(model, jnp.asarray(self.columns))

    def relabel(self, label: jax.Array) -> jax.Array:
        """The dataset's labels, int `[batch]` (or `[batch, tokens]`) or float `[batch, classes]`, numbered as those
        logits are.
        """
        if self.columns is None or self.restricted:
            return label
        columns = jnp.asarray(self.columns)
        if jnp.issubdtype(label.dtype, jnp.integer):
            return columns[label]
        return jnp.zeros((len(label), self.count), label.dtype).at[:, columns].set(label)


def match(
    model: Sequence[str] | None,
    model_count: int,
    data: Sequence[str] | None,
    data_count: int,
    *,
    restrict: bool = True,
) -> ClassMapping:
    """Find the dataset's classes among the model's.

    Args:
        model: the names of the model's classes, if known.
        model_count: how many it tells apart.
        data: the names of the dataset's classes, if known.
        data_count: how many it has.
        restrict: predictions are to be among the dataset's classes only.

    Raises:
        UserError: a name of the dataset is unknown to the model or stands for two of its classes; or one side has no
            names and the counts differ.
    """
    if model is None or data is None:
        return by_number(model, model_count, data, data_count)
    model, data = tuple(model), tuple(data)
    if spelling.are_same(model, data):
        return ClassMapping(None, False, data, len(data), f"the model's {len(data)}")
    refuse_unknown(model, data)
    places = spelling.positions(model)
    columns = tuple(places[spelling.normalise(name)][0] for name in data)
    if len(data) == len(model):
        return ClassMapping(columns, False, model, len(model), f"the model's {len(model)}, matched by name")
    occur = f"{len(data)} of the model's {len(model)} occur in this data"
    if restrict:
        text = f"{occur}; predictions over these {len(data)} only (--all-classes: over all {len(model)})"
        return ClassMapping(columns, True, data, len(data), text)
    text = f"{occur}; predictions over all {len(model)}"
    return ClassMapping(columns, False, model, len(model), text)


def by_number(
    model: Sequence[str] | None, model_count: int, data: Sequence[str] | None, data_count: int
) -> ClassMapping:
    """The mapping where a side has no names: only equal counts can be trusted, and the line says so."""
    if model_count != data_count:
        side = "checkpoint" if model is None else "dataset"
        raise UserError(
            "data",
            None,
            f"has {data_count} classes and the model {model_count}; the {side} has no names, so they can't be matched",
        )
    names = tuple(data or model or ()) or None
    return ClassMapping(None, False, names, data_count, f"{data_count}, by number (one side has no names)")


def refuse_unknown(model: tuple[str, ...], data: tuple[str, ...]) -> None:
    """Raises UserError if a class of the dataset isn't exactly one of the model's."""
    places = spelling.positions(model)
    unknown = [name for name in data if spelling.normalise(name) not in places]
    if unknown:
        shown, more = ", ".join(unknown[:5]), f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        theirs = ", ".join(model[:5]) + (", ..." if len(model) > 5 else "")
        wanted = "call the data's classes as the model's are called, or fine-tune it on these data"
        raise UserError("classes", shown + more, f"aren't among the model's {len(model)} ({theirs}); {wanted}")
    twice = [name for name in data if len(places[spelling.normalise(name)]) > 1]
    if twice:
        raise UserError("classes", twice[0], "names two classes of the model")


class PresentClasses:
    """A source with the classes that its examples have, in its order; all others are left out of the names.

    ImageNet-A and -R name all of ImageNet's 1,000 classes and have images of 200 of them.

    Raises:
        UserError: it names no classes, or its examples may have several.
    """

    def __init__(self, source: Source):
        info = source.info
        if info.multi_label or info.classes is None:
            raise UserError("present_classes", True, f"is of data with one class each; {info.name} has no such")
        self.source, self.ids, self.fields = source, source.ids, source.fields
        self.kept = np.unique(info.labels())
        self.number = np.full(len(info.classes), -1, np.int32)
        self.number[self.kept] = np.arange(len(self.kept))
        classes = tuple(info.classes[index] for index in self.kept)
        self.info = dataclasses.replace(info, classes=classes, labels=self.labels)

    def labels(self) -> np.ndarray:
        return self.number[self.source.info.labels()]

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Row:
        example = self.source[index]
        return {**example, "label": self.number[example["label"]]}

    def where(self, index: int) -> str:
        return self.source.where(index)
