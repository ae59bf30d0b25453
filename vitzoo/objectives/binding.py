"""An objective's settings bound to its data and its model; what a user's own then gives is checked as it is traced."""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from vitzoo import own_values
from vitzoo.errors import UserError
from vitzoo.objectives.base import Batch, Frozen, Objective, Rows, Sum, TrainingData
from vitzoo.own_values import Wrong, fault, is_array, is_number, is_numbers
from vitzoo.registry import USER_PARTS, name_of

BOUND = ("term_weights", "counts")
"""What an objective's `bind` gives has, and `sums`."""

EMBEDDINGS = ("embeddings", "sums_of")
"""What it has in place of `sums` if its rows see each other."""

LINE = (
    *("step", "split", "examples", "epoch", "seconds", "goodput"),
    *("loss", "grad_norm", "learning_rate", "weight_decay", "skipped", "counted"),
)
"""Names that a line of the log has itself, besides `loss_TERM`."""

MEMORY = ("init", "update")
"""What it has besides if it remembers, both or none."""


def bound(settings: Any, info: TrainingData, model_config: Any, models: Mapping[str, Frozen]) -> Objective:
    """What an objective's `bind` gives.

    Args:
        settings: the objective's.
        info: of the rows that are trained on.
        model_config: every setting of the model.
        models: those to learn from, by setting.

    Raises:
        UserError: a user's own lacks something, or the weights of its terms are no numbers. Its methods raise one too,
            when they give something else than `Objective`, `WithMemory` and `WithEmbeddings` say.
    """
    objective: Any = settings.bind(info, model_config, **models)
    if name_of(settings):
        _check_has_all(settings, objective)
        objective = _Checked(settings, objective, frozenset(models))
    return objective


def _check_has_all(settings: Any, objective: object) -> None:
    sums = EMBEDDINGS if hasattr(objective, EMBEDDINGS[0]) else ("sums",)
    lacking = [attribute for attribute in (*BOUND, *sums) if not hasattr(objective, attribute)]
    if any(hasattr(objective, method) for method in MEMORY):
        lacking += [method for method in MEMORY if not hasattr(objective, method)]
    if lacking:
        listed, name = ", ".join(f"`{attribute}`" for attribute in lacking), name_of(settings)
        raise UserError(USER_PARTS[name], name, f"what its `bind` gives lacks {listed}")


class _Checked:
    """An objective of a user's own, with those methods that it has: each checks what it gives.

    Args:
        settings: the objective's, for messages.
        objective: what its `bind` gave.
        frozen: the names in its memory of models to learn from.
    """

    def __init__(self, settings: Any, objective: Any, frozen: frozenset[str]):
        self._settings, self._own, self._frozen = settings, objective, frozen
        weights = objective.term_weights
        if not weights or fault(weights, _is_finite) is not None:
            wrong = fault(weights, _is_finite) or weights
            raise own_values.refusal(settings, "term_weights", wrong, 'a dict of numbers, {"loss": 1.0}')
        self.term_weights: Mapping[str, float] = weights
        # the protocols tell objectives apart by the methods that there are
        methods = EMBEDDINGS if hasattr(objective, EMBEDDINGS[0]) else ("sums",)
        for method in (*methods, *(MEMORY if hasattr(objective, MEMORY[0]) else ())):
            setattr(self, method, getattr(self, f"_{method}"))

    def counts(self, batch: Batch) -> Any:
        counts = self._own.counts(batch)
        self._check_terms("counts", counts, None)
        return counts

    def _sums(self, model: Any, batch: Batch, key: Any = None, **how: Any) -> Any:
        found = self._own.sums(model, batch, key, **how)
        self._check_sums("sums", found, batch)
        return found

    def _embeddings(self, model: Any, batch: Batch, key: Any = None, **how: Any) -> Any:
        found, rows = self._own.embeddings(model, batch, key, **how), _rows(batch)
        good = lambda one: own_values.has_rows(one, rows) and is_numbers(one, jnp.floating)  # noqa: E731
        self._check("embeddings", fault(found, good), "a dict of floats [batch, ...]")
        return found

    def _sums_of(self, embeddings: Any, params: Any, batch: Batch, **how: Any) -> Any:
        found = self._own.sums_of(embeddings, params, batch, **how)
        self._check_sums("sums_of", found, batch)
        return found

    def _init(self, params: Any) -> Any:
        memory = self._own.init(params)
        self._check("init", fault(memory, _is_nested), "a nested dict of arrays")
        return memory

    def _update(self, memory: Any, params: Any, notes: Any, step: Any) -> Any:
        found = self._own.update(memory, params, notes, step)
        self._check("update", fault(found, _is_nested), "a memory that is shaped as it was")
        kept = [name for name in memory if name not in self._frozen]
        if lacking := [name for name in kept if name not in found]:
            raise self._refusal("update", found, f"a memory with {lacking[0]}, as it was")
        for name in kept:
            wrong = own_values.unlike({name: found[name]}, {name: memory[name]})
            self._check("update", wrong, "a memory that is shaped as it was")
        return found

    def _check_terms(self, method: str, values: Any, kind: Any) -> None:
        terms = ", ".join(self.term_weights)
        wanted = f"a number for each of the terms that `term_weights` names, {terms}"
        self._check(method, fault(values, lambda value: is_number(value, kind)), wanted)
        if values.keys() != self.term_weights.keys():
            raise self._refusal(method, values, wanted)

    def _check_sums(self, method: str, found: Any, batch: Batch) -> None:
        if not (isinstance(found, tuple) and len(found) == 3):
            raise self._refusal(method, found, "three dicts: sums of the terms, metrics and notes")
        sums, metrics, notes = found
        self._check_terms(method, sums, jnp.floating)
        self._check(method, fault(metrics, _is_pair), "two numbers, sum and count, for each metric")
        own = (*LINE, *(f"loss_{term}" for term in self.term_weights))
        if taken := [name for name in metrics if name in own]:
            raise self._refusal(method, metrics, f"another name for {taken[0]}, which each line of the log has")
        rows = _rows(batch)
        self._check(method, fault(notes, lambda note: _is_note(note, rows)), "a Sum or Rows for each note")

    def _check(self, method: str, wrong: Wrong | None, wanted: str) -> None:
        if wrong is not None:
            raise self._refusal(method, wrong, wanted)

    def _refusal(self, method: str, value: Any, wanted: str) -> UserError:
        return own_values.refusal(self._settings, method, value, wanted)


def _rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value))


def _is_note(note: Any, rows: int) -> bool:
    if isinstance(note, Rows):
        return own_values.has_rows(note.value, rows)
    return isinstance(note, Sum) and (is_array(note.value) or is_number(note.value))


def _is_nested(value: Any) -> bool:
    return is_numbers(value) or fault(value, _is_nested) is None
