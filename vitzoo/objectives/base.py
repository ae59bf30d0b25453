"""What a model is trained for: losses as sums over counts, and a memory where losses need one."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

Batch = Mapping[str, jax.Array]
Scalars = dict[str, jax.Array]
Pairs = dict[str, tuple[jax.Array, jax.Array]]
Memory = Mapping[str, Any]
"""A nested dict of arrays, part of the train state."""


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
            batch: a part of the global batch, `[rows, ...]`; in training with `key` [rows], each row's own random key,
                whatever micro-batch and device it is computed in.
            key: of what doesn't belong to a row, such as dropout.
            train: whether it is called in training.
            memory: the objective's; None where it keeps none.
            step: batches consumed before this one.
        """


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
            memory: before it.
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


def joined(notes: Any, accumulate: int) -> dict[str, jax.Array]:
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
