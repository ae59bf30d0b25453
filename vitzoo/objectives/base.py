"""What a model is trained for: losses as sums over counts, and a memory where losses need one."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo.nn.state import Shapes, merge

Batch = Mapping[str, jax.Array]
Scalars = dict[str, jax.Array]
Pairs = dict[str, tuple[jax.Array, jax.Array]]
Memory = Mapping[str, Any]
"""A nested dict of arrays: what the train state holds of an objective, and the weights of frozen models by setting."""


class Sum(NamedTuple):
    """A note that is added over micro-batches: an array of any shape."""

    value: jax.Array


class Rows(NamedTuple):
    """A note with a row for each example, `[batch, ...]`: micro-batches' are joined in the global batch's order."""

    value: jax.Array


Notes = Mapping[str, Sum | Rows]
"""What an objective writes down in its pass over a micro-batch, for its memory. `update` gets the arrays of the whole
global batch, by the same names."""

Sums = tuple[Scalars, Pairs, Notes]


class TrainingData(Protocol):
    """What an objective's `bind` is told of the data that are trained on."""

    @property
    def n(self) -> int:
        """How many examples there are."""

    @property
    def multi_label(self) -> bool:
        """Whether an example may have several labels."""

    @property
    def classes(self) -> Sequence[str] | None:
        """The names of the classes; None without any."""

    @property
    def class_counts(self) -> Sequence[int] | None:
        """Examples of each class; None where they aren't known."""


class ObjectiveSettings(Protocol):
    """The class that `objective.name` names: a frozen dataclass, whose fields are the settings. Besides `bind` it may
    say, each as a class attribute:

    - `TAKES`: the kind of input that it is for, `text` or `image`; by default any.
    - `CLASSES`: whether it needs logits of classes, `[batch, num_classes]`, of a model of images; false.
    - `EVALUATOR`: which measures it where an evaluator isn't named, `perplexity`.
    - of text, `rows` (a key of `data.text.row_kinds.ROWS`, an attribute or a setting), `HEAD` (the head that a BERT
      needs) and `PREFIX_LM` (whether a decoder reads what a text begins with in both directions).

    A setting made by `setting(checkpoint=True)` names a checkpoint to learn from.
    """

    def bind(self, info: TrainingData, model_config: Any, **frozen: "Frozen") -> "Objective":
        """The objective for these data and this model.

        Args:
            info: of the rows that are trained on.
            model_config: every setting of the model.
            frozen: the models of the checkpoints that settings name, by setting.
        """


class Objective(Protocol):
    """What a model is trained for, bound to its data and its model."""

    @property
    def term_weights(self) -> Mapping[str, float]:
        """Factor of each term in the differentiated loss."""

    def counts(self, batch: Batch) -> Scalars:
        """What each term's sum is divided by, from the whole global batch; a term whose count is 0 adds 0."""

    def sums(
        self,
        model: Any,
        batch: Batch,
        key: jax.Array | None = None,
        *,
        train: bool = True,
        memory: Memory | None = None,
        step: jax.Array | int = 0,
    ) -> Sums:
        """`{term: sum}`, `{metric: (sum, count)}` and the notes of a micro-batch.

        Args:
            model: with its variables.
            batch: a part of the global batch, `[rows, ...]`; with `key` [rows], each row's own random key,
                whatever micro-batch and device it is computed in.
            key: of what doesn't belong to a row, such as dropout.
            train: whether it is called in training.
            memory: the objective's, and the weights of the frozen models that its settings name; None without either.
            step: batches consumed before this one.
        """


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A checkpoint's model to learn from, which isn't trained: what an objective's `bind` is given by the name of a
    setting that names the checkpoint, `teacher: str = setting("", checkpoint=True)`.

    The memory holds its weights under the same name. They lie on devices as a model's do, and aren't saved: they are
    read anew, and another checkpoint under the same name is refused.

    Attributes:
        description: the content of the checkpoint's `model.json`.
        graph: the model's static structure.
        shapes: its variables'.
        rules: its sharding rules.
        images: the images of a batch, float [B, H, W, C], to those that this model takes, of its own size and scale.
        columns: gives for each of the student's classes its place among this model's, None where they are the same;
            raises UserError where one isn't among them.
    """

    description: Mapping[str, Any]
    graph: nnx.GraphDef
    shapes: Shapes
    rules: Sequence[tuple[str, tuple[str | None, ...] | None]]
    images: Callable[[jax.Array], jax.Array]
    columns: Callable[[], tuple[int, ...] | None]

    def model(self, weights: Mapping[str, Any]) -> Any:
        """The model with its weights, `memory["teacher"]`."""
        return merge(self.graph, dict(weights))

    def classifier(self) -> Callable[[Mapping[str, Any], Batch], jax.Array]:
        """(weights, batch) to logits float32 [B, the student's classes], of the very images that the student sees.

        Raises:
            UserError: it doesn't know the student's classes.
        """
        columns = self.columns()

        def logits(weights: Mapping[str, Any], batch: Batch) -> jax.Array:
            found = self.model(weights)(self.images(batch["image"]), train=False).astype(jnp.float32)
            return jax.lax.stop_gradient(found if columns is None else found[:, np.asarray(columns)])

        return logits


@runtime_checkable
class WithMemory(Protocol):
    """An objective that remembers: a teacher that moves, a centre, a queue. Its memory is sharded, saved and restored
    with the rest of the state, and stays as it is in a step that is skipped.
    """

    def init(self, params: Mapping[str, Any]) -> Memory:
        """The memory before the first batch; a part that is shaped like the parameters lies on devices as they do."""

    def update(
        self, memory: Memory, params: Mapping[str, Any], notes: Mapping[str, jax.Array], step: jax.Array
    ) -> Memory:
        """The memory after a step, of the same shapes.

        Args:
            memory: before it, weights of frozen models among it, which stay as they are.
            params: the model's variables after it.
            notes: of the whole global batch.
            step: batches consumed before this one.
        """


@runtime_checkable
class WithEmbeddings(Protocol):
    """An objective whose rows see each other, as pictures and texts do that are contrasted with all others of a batch.

    It has these two methods in place of `sums`. Whatever `accumulate` is, the loss is of the whole global batch: its
    embeddings are made first, micro-batch by micro-batch, then the loss of all of them, then the gradients of each.
    """

    def embeddings(
        self, model: Any, batch: Batch, key: jax.Array | None = None, *, train: bool = True
    ) -> dict[str, jax.Array]:
        """`{name: [rows, ...]}`, what the rows of a micro-batch are to each other; arguments as for `sums`."""

    def sums_of(
        self,
        embeddings: Mapping[str, jax.Array],
        params: Mapping[str, Any],
        batch: Batch,
        *,
        memory: Memory | None = None,
        step: jax.Array | int = 0,
    ) -> Sums:
        """What `sums` gives, of the whole global batch.

        Args:
            embeddings: `{name: [batch, ...]}`, in the batch's order.
            params: the model's variables, for what belongs to no row, such as a temperature.
            batch: the global batch.
            memory, step: as for `sums`.
        """


def in_order(rows: jax.Array) -> jax.Array:
    """Rows of micro-batches, `[accumulate, rows, ...]`, in the global batch's order, `[batch, ...]`."""
    return jnp.moveaxis(rows, 0, 1).reshape(-1, *rows.shape[2:])


def joined(notes: Notes, accumulate: int) -> dict[str, jax.Array]:
    """Notes of the whole global batch. Those of several micro-batches lie along a first axis.

    Micro-batch m holds the rows r with r mod `accumulate` = m.
    """

    def one(note: Sum | Rows) -> jax.Array:
        if accumulate == 1:
            return note.value
        if isinstance(note, Sum):
            return note.value.sum(0)
        return in_order(note.value)

    return {name: one(note) for name, note in notes.items()}
