"""One training step, from a global batch to new parameters: pure, so that it can be traced, planned and tested alone.

Every draw comes from `fold_in(key(seed), step)`. Micro-batch m holds the rows r with r mod accumulate = m: the same
rows on every mesh, and each device finds its own where they already lie.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax

from vitzoo.nn.constrain import constrain
from vitzoo.nn.state import merge
from vitzoo.optim.build import Chain
from vitzoo.optim.schedules import Rate
from vitzoo.steps.state import State

Batch = Mapping[str, jax.Array]
Scalars = dict[str, jax.Array]
Prepare = Callable[[Batch, jax.Array | None], dict[str, jax.Array]]
Teach = Callable[[Mapping[str, Any], Batch], dict[str, jax.Array]]


class Objective(Protocol):
    """What a model is trained for, bound to its data."""

    @property
    def term_weights(self) -> Mapping[str, float]:
        """Factor of each term in the differentiated loss."""

    def counts(self, batch: Batch) -> Scalars:
        """What each term's sum is divided by, from the whole global batch; a term whose count is 0 adds 0."""

    def sums(
        self, model: Any, batch: Batch, key: jax.Array | None, train: bool
    ) -> tuple[Scalars, Mapping[str, tuple[jax.Array, jax.Array]]]:
        """`{term: sum}` and `{metric: (sum, count)}` over a micro-batch."""


Step = Callable[[State, Batch, Any], tuple[State, Scalars]]


def make_train_step(
    graph: Any,
    objective: Objective,
    tx: Chain,
    schedule: Rate,
    *,
    prepare: Prepare,
    teach: Teach | None = None,
    accumulate: int = 1,
    ema: float = 0.0,
    ema_warm_start: bool = False,
) -> Step:
    """`step(state, batch, seed) -> (state, metrics)`, to be compiled by `steps.compile`.

    A step whose loss or gradient norm isn't finite changes no parameter, moment, average or `updates`; it counts in
    `skipped`, and `step` advances. Whether such a run goes on or stops is the loop's choice: what the state holds is
    good either way.

    Args:
        graph: the model's static structure, from `nn.state.abstract`.
        objective: bound to the data.
        tx: the optimizer, from `optim.build`.
        schedule: step to learning rate, the one `tx` was built with; for the metric.
        prepare: (batch, key) to the batch that the objective takes: normalising, mixing; on the whole global batch,
            before it is split. Every array in and out has a row for each example.
        teach: (the state's `teacher`, micro-batch) to the micro-batch with what the teacher says of it.
        accumulate: micro-batches per step. Must divide the batch; memory falls, the result stays.
        ema: decay of the parameters' moving average, updated on applied steps; 0 is off.
        ema_warm_start: use min(ema, (1 + updates) / (10 + updates)), so that a short training's average forgets the
            initial parameters (TensorFlow's ExponentialMovingAverage with num_updates).

    Returns:
        The step. Its metrics are float32 or int32 scalars: `loss`, the objective's metrics, `grad_norm` (before
        clipping), `learning_rate` (of this step), `skipped` (of the whole run so far); and `counted`, false where no
        row of the batch has any weight: its loss is 0 and says nothing. The mean of a metric or a term that nothing
        counts for is NaN.
    """

    def step(state: State, batch: Batch, seed: jax.Array | int) -> tuple[State, Scalars]:
        key = jax.random.fold_in(jax.random.key(seed), state["step"])
        batch = over_devices(prepare(batch, jax.random.fold_in(key, 0)))
        counts = objective.counts(batch)
        factors = {term: mean(weight, counts[term]) for term, weight in objective.term_weights.items()}
        trained, frozen = tx.partition(state["params"])

        def loss(trained: State, micro: Batch, key: jax.Array) -> tuple[jax.Array, Any]:
            micro = micro if teach is None else teach(state["teacher"], micro)
            sums, metrics = objective.sums(merge(graph, tx.join(trained, frozen)), micro, key, train=True)
            return sum((factors[term] * sums[term] for term in factors), jnp.zeros(())), (sums, metrics)

        gradients, value, sums, metrics = _accumulate(loss, trained, batch, jax.random.fold_in(key, 1), accumulate)
        norm = optax.tree.norm(gradients)
        changes, moments = tx.update(gradients, state["optimizer"], trained, step=state["step"])
        new: State = {"params": tx.join(optax.apply_updates(trained, changes), frozen), "optimizer": moments}
        new["updates"] = state["updates"] + 1
        if ema:
            decay = _ema_decay(ema, new["updates"]) if ema_warm_start else ema
            # written so that the average of what doesn't change is exactly that
            new["ema"] = jax.tree.map(lambda a, p: a + (1 - decay) * (p - a), state["ema"], new["params"])
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        new = jax.tree.map(lambda new, old: jnp.where(finite, new, old), new, {name: state[name] for name in new})
        new |= {"step": state["step"] + 1, "skipped": state["skipped"] + ~finite}
        new |= {} if teach is None else {"teacher": state["teacher"]}
        scalars = {"loss": value} | _terms(factors, sums, counts)
        scalars |= {name: mean(total, count, jnp.nan) for name, (total, count) in metrics.items()}
        scalars |= {"grad_norm": norm, "learning_rate": schedule(state["step"]), "skipped": new["skipped"]}
        scalars["counted"] = sum((jnp.abs(counts[term]) for term in factors), jnp.zeros(())) != 0
        return new, scalars

    return step


def over_devices(batch: Batch) -> dict[str, jax.Array]:
    """The batch's rows spread over the mesh, if there is one."""
    return {name: constrain(rows, ("batch", *(None,) * (rows.ndim - 1))) for name, rows in batch.items()}


def mean(total: jax.typing.ArrayLike, count: jax.Array, of_none: float = 0.0) -> jax.Array:
    """`total / count`, however small the count is (weights may sum to less than 1); `of_none` where it is 0."""
    return jnp.where(count == 0, of_none, total / jnp.where(count == 0, 1, count))


def _terms(factors: Scalars, sums: Scalars, counts: Scalars) -> Scalars:
    if len(factors) < 2:
        return {}
    return {f"loss_{term}": jnp.where(counts[term] == 0, jnp.nan, factors[term] * sums[term]) for term in factors}


def _ema_decay(decay: float, updates: jax.Array) -> jax.Array:
    return jnp.minimum(decay, (1 + updates) / (10 + updates))


def _accumulate(
    loss: Callable, trained: State, batch: Batch, key: jax.Array, accumulate: int
) -> tuple[State, jax.Array, Scalars, Any]:
    """Gradients, loss, sums and metrics of the whole batch, `1 / accumulate` of its rows at a time."""
    differentiate = jax.value_and_grad(loss, has_aux=True)
    if accumulate == 1:
        (value, (sums, metrics)), gradients = differentiate(trained, batch, key)
        return gradients, value, sums, metrics
    cut = {name: rows.reshape(-1, accumulate, *rows.shape[1:]) for name, rows in batch.items()}

    def add(total: State, index: jax.Array) -> tuple[State, Any]:
        micro = {n: jax.lax.dynamic_index_in_dim(rows, index, 1, keepdims=False) for n, rows in cut.items()}
        results, gradients = differentiate(trained, over_devices(micro), jax.random.fold_in(key, index))
        return jax.tree.map(jnp.add, total, gradients), results

    zeros = jax.tree.map(jnp.zeros_like, trained)
    gradients, results = jax.lax.scan(add, zeros, jnp.arange(accumulate))
    value, (sums, metrics) = jax.tree.map(lambda parts: parts.sum(0), results)
    return gradients, value, sums, metrics
