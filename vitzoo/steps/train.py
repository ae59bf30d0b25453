"""One training step, from a global batch to new parameters: pure, so that it can be traced, planned and tested alone.

Every draw comes from `fold_in(key(seed), step)`. Micro-batch m holds the rows r with r mod accumulate = m: the same
rows on every mesh, and each device finds its own where they already lie.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from vitzoo.nn.constrain import constrain
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.nn.state import Params, merge, statistics
from vitzoo.objectives.base import Batch, Objective, Scalars, WithEmbeddings, WithMemory, in_order, joined
from vitzoo.optim.build import Chain
from vitzoo.optim.schedules import Rate
from vitzoo.steps.state import State, memory

Rows = dict[str, jax.Array]
Prepare = Callable[[Batch, jax.Array | None], dict[str, jax.Array]]


Step = Callable[[State, Batch, jax.Array | int], tuple[State, Scalars]]


def make_train_step(
    graph: nnx.GraphDef,
    objective: Objective,
    tx: Chain,
    schedule: Rate,
    *,
    prepare: Prepare,
    accumulate: int = 1,
    ema: float = 0.0,
    ema_warm_start: bool = False,
) -> Step:
    """`step(state, batch, seed) -> (state, metrics)`, to be compiled by `steps.compile`.

    A step whose loss or gradient norm isn't finite changes no parameter, moment, average or `updates`; it counts in
    `skipped`, and `step` advances. Whether such a run goes on or stops is the loop's choice: what the state holds is
    good either way.

    Statistics that the model keeps are taken over one micro-batch after the other, on all devices. Those, unlike all
    else, depend on `accumulate`.

    Args:
        graph: the model's static structure, from `nn.state.abstract`.
        objective: bound to the data and the model; one `WithEmbeddings` needs no `sums`.
        tx: the optimizer, from `optim.build`.
        schedule: step to learning rate, the one `tx` was built with; for the metric.
        prepare: (batch, key) to the batch that the objective takes: normalising, mixing; on the whole global batch,
            before it is split. Every array in and out has a row for each example.
        accumulate: micro-batches per step. Must divide the batch; memory falls, the result stays.
        ema: decay of the parameters' moving average, updated on applied steps; 0 is off.
        ema_warm_start: use min(ema, (1 + updates) / (10 + updates)), so that a short training's average forgets the
            initial parameters (TensorFlow's ExponentialMovingAverage with num_updates).

    Returns:
        The step. Its metrics are float32 or int32 scalars: `loss`, the objective's metrics, `grad_norm` (before
        clipping), `learning_rate` and, where that has a schedule, `weight_decay` (of this step), `skipped` (of the
        whole run so far); and `counted`, false where no row of the batch has any weight: its loss is 0 and says
        nothing. The mean of a metric or a term that nothing counts for is NaN.
    """

    def step(state: State, batch: Batch, seed: jax.Array | int) -> tuple[State, Scalars]:
        key = jax.random.fold_in(jax.random.key(seed), state["step"])
        batch = over_devices(prepare(batch, jax.random.fold_in(key, 0)) | row_keys(batch, jax.random.fold_in(key, 2)))
        counts = objective.counts(batch)
        factors = {term: mean(weight, counts[term]) for term, weight in objective.term_weights.items()}
        trained, others = tx.partition(state["params"])
        known = {"memory": memory(state), "step": state["step"]}

        def model_of(trained: Params, kept: Params) -> Any:
            return merge(graph, _with(tx.join(trained, others), kept))

        def loss_of(sums: Scalars) -> jax.Array:
            return sum((factors[term] * sums[term] for term in factors), jnp.zeros(()))

        def loss(trained: Params, kept: Params, micro: Batch, key: jax.Array) -> tuple[jax.Array, Any]:
            model = model_of(trained, kept)
            sums, metrics, notes = objective.sums(model, micro, key, train=True, **known)
            return loss_of(sums), (sums, metrics, notes, statistics(model))

        contrasted: Any = objective  # `WithEmbeddings`, where these two are called

        def embed(trained: Params, micro: Batch, key: jax.Array) -> Rows:
            return contrasted.embeddings(model_of(trained, {}), micro, key, train=True)

        def contrast(rows: Rows, trained: Params) -> tuple[jax.Array, Any]:
            sums, metrics, notes = contrasted.sums_of(rows, tx.join(trained, others), batch, **known)
            return loss_of(sums), (sums, metrics, notes)

        draws = jax.random.fold_in(key, 1)
        if isinstance(objective, WithEmbeddings):
            kept: Params = {}
            gradients, value, (sums, metrics, notes) = _contrast(embed, contrast, trained, batch, draws, accumulate)
        else:
            kept = statistics(merge(graph, state["params"]))
            gradients, value, (sums, metrics, notes), kept = _accumulate(loss, trained, kept, batch, draws, accumulate)
        norm = optax.tree.norm(gradients)
        changes, moments = tx.update(gradients, state["optimizer"], trained, step=state["step"])
        params = _with(tx.join(optax.apply_updates(trained, changes), others), kept)
        new: State = {"params": params, "optimizer": moments, "updates": state["updates"] + 1}
        if isinstance(objective, WithMemory):
            remembered = objective.update(known["memory"], params, notes, state["step"])
            new["objective"] = {name: remembered[name] for name in state["objective"]}
        if ema:
            decay = _ema_decay(ema, new["updates"]) if ema_warm_start else ema
            new["ema"] = _with(_averaged(state["ema"], params, decay), _float32(kept))
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        new = jax.tree.map(lambda new, old: jnp.where(finite, new, old), new, {name: state[name] for name in new})
        new |= {"step": state["step"] + 1, "skipped": state["skipped"] + ~finite}
        new |= {"frozen": state["frozen"]} if "frozen" in state else {}
        scalars = {"loss": value} | _terms(factors, sums, counts)
        scalars |= {name: mean(total, count, jnp.nan) for name, (total, count) in metrics.items()}
        scalars |= {"grad_norm": norm, "learning_rate": schedule(state["step"]), "skipped": new["skipped"]}
        scalars |= {} if tx.weight_decay is None else {"weight_decay": tx.weight_decay(state["step"])}
        scalars["counted"] = sum((jnp.abs(counts[term]) for term in factors), jnp.zeros(())) != 0
        return new, scalars

    return step


def row_keys(batch: Batch, key: jax.Array, first: jax.Array | int = 0) -> dict[str, jax.Array]:
    """A random key for each row of the global batch, drawn before the batch is split; `first` is its first row's
    number.
    """
    size = len(next(iter(batch.values())))
    return {"key": jax.vmap(jax.random.fold_in, (None, 0))(key, first + jnp.arange(size))}


def _with(params: Params, others: Params) -> Params:
    """The tree with some of its leaves replaced."""
    return unflatten(flatten(params) | flatten(others)) if others else params


def _averaged(average: Params, params: Params, decay: jax.Array | float) -> Params:
    # written so that the average of what doesn't change is exactly that
    return jax.tree.map(lambda a, p: a + (1 - decay) * (p - a), average, params)


def _float32(tree: Params) -> Params:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)


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
    loss: Callable, trained: Params, kept: Params, batch: Batch, key: jax.Array, accumulate: int
) -> tuple[Params, jax.Array, Any, Params]:
    """Gradients, loss, and sums, metrics and notes of the whole batch, `1 / accumulate` of its rows at a time; and the
    statistics, which each micro-batch changes from what the one before it left.
    """
    differentiate = jax.value_and_grad(loss, has_aux=True)
    if accumulate == 1:
        (value, (sums, metrics, notes, kept)), gradients = differentiate(trained, kept, batch, key)
        return gradients, value, (sums, metrics, joined(notes, 1)), kept

    def add(carry: tuple[Params, Params], index: jax.Array) -> tuple[tuple[Params, Params], Any]:
        total, kept = carry
        (value, (sums, metrics, notes, kept)), gradients = differentiate(
            trained, kept, *_micro(batch, key, accumulate, index)
        )
        return (jax.tree.map(jnp.add, total, gradients), kept), ((value, sums, metrics), notes)

    zeros = jax.tree.map(jnp.zeros_like, trained)
    (gradients, kept), (results, notes) = jax.lax.scan(add, (zeros, kept), jnp.arange(accumulate))
    value, sums, metrics = jax.tree.map(lambda parts: parts.sum(0), results)
    return gradients, value, (sums, metrics, joined(notes, accumulate)), kept


def _contrast(
    embed: Callable, contrast: Callable, trained: Params, batch: Batch, key: jax.Array, accumulate: int
) -> tuple[Params, jax.Array, Any]:
    """The same for an objective whose rows see each other: embeddings of each micro-batch, the loss of all of them, and
    once more through each micro-batch with what the loss says of its embeddings.
    """
    if accumulate == 1:
        differentiate = jax.value_and_grad(lambda p: contrast(embed(p, batch, key), p), has_aux=True)
        (value, (sums, metrics, notes)), gradients = differentiate(trained)
        return gradients, value, (sums, metrics, joined(notes, 1))
    numbers = jnp.arange(accumulate)
    pieces = jax.lax.map(lambda index: embed(trained, *_micro(batch, key, accumulate, index)), numbers)
    rows = over_devices(jax.tree.map(in_order, pieces))
    differentiate = jax.value_and_grad(contrast, argnums=(0, 1), has_aux=True)
    (value, (sums, metrics, notes)), (of_rows, gradients) = differentiate(rows, trained)

    def add(total: Params, index: jax.Array) -> tuple[Params, None]:
        micro, own = _micro(batch, key, accumulate, index)
        _, pull = jax.vjp(lambda p: embed(p, micro, own), trained)
        (more,) = pull(_rows_of(of_rows, accumulate, index))
        return jax.tree.map(jnp.add, total, more), None

    gradients, _ = jax.lax.scan(add, gradients, numbers)
    return gradients, value, (sums, metrics, joined(notes, 1))


def _micro(batch: Batch, key: jax.Array, accumulate: int, index: jax.Array) -> tuple[Batch, jax.Array]:
    """Micro-batch `index`, and its own key."""
    return over_devices(_rows_of(batch, accumulate, index)), jax.random.fold_in(key, index)


def _rows_of(batch: Batch, accumulate: int, index: jax.Array) -> Rows:
    """The rows r with r mod `accumulate` = index."""
    cut = {name: rows.reshape(-1, accumulate, *rows.shape[1:]) for name, rows in batch.items()}
    return {name: jax.lax.dynamic_index_in_dim(rows, index, 1, keepdims=False) for name, rows in cut.items()}
