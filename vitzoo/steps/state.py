"""The train state: a plain nested dict of arrays, so that it crosses `jax.jit` fast and has stable paths on disk.

params     the model's variables: its parameters, and its statistics, which forward passes change
objective  what the objective remembers (`objectives.base.WithMemory`); absent where it doesn't
optimizer  the optimizer's state: `updates`, its own count of steps applied, and the method's moments
ema        float32 moving average of the parameters, and the statistics as they are; absent when off
step       int32, global batches consumed: always advances
teacher    parameters of a model to learn from, which pass through unchanged and are not saved; absent without one
updates    int32, steps applied
skipped    int32, steps not applied because loss or gradients weren't finite; step = updates + skipped
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from vitzoo.objectives.base import Objective, WithMemory
from vitzoo.optim.build import Chain
from vitzoo.parallel.sharding import Rules, optimizer_shardings, param_shardings, replicated

State = dict[str, Any]


def create(
    params: State,
    tx: Chain,
    ema: float = 0.0,
    shardings: State | None = None,
    objective: Objective | None = None,
) -> State:
    """The state before the first batch.

    Args:
        params: all parameters; used as they are, so they must not be used again once a step has donated the state.
        tx: the optimizer, from `optim.build`.
        ema: above 0, the state holds a moving average, which starts at the parameters.
        shardings: of the whole state, from `shardings`; moments are made where they belong.
        objective: bound; one that remembers adds its memory.
    """
    rest = None if shardings is None else {name: place for name, place in shardings.items() if name != "params"}
    return {"params": params, **jax.jit(lambda p: _rest(p, tx, ema, objective), out_shardings=rest)(params)}


def _rest(params: State, tx: Chain, ema: float, objective: Objective | None) -> State:
    trained, _ = tx.partition(params)
    state: State = {name: jnp.zeros((), jnp.int32) for name in ("step", "updates", "skipped")}
    state["optimizer"] = tx.init(trained)
    if ema:
        state["ema"] = jax.tree.map(lambda p: jnp.array(p, jnp.float32, copy=True), params)
    if isinstance(objective, WithMemory):
        state["objective"] = memory_of(objective, params)
    return state


def memory_of(objective: WithMemory, params: State) -> State:
    """What an objective remembers before the first batch."""
    return jax.tree.map(jnp.array, dict(objective.init(params)))


def evaluated(state: Mapping[str, Any]) -> tuple[State, str]:
    """The parameters that a state is evaluated by, and which they are: `ema`, the moving average where there is one,
    or `raw`.
    """
    return (state["ema"], "ema") if "ema" in state else (state["params"], "raw")


def abstract(shapes: Mapping[str, Any], tx: Chain, ema: float = 0.0, objective: Objective | None = None) -> State:
    """The state's shapes; nothing is allocated."""
    return {"params": dict(shapes), **jax.eval_shape(lambda p: _rest(p, tx, ema, objective), shapes)}


def shardings(state: Mapping[str, Any], rules: Rules, mesh: Mesh) -> State:
    """A sharding for every leaf of the state.

    Args:
        state: from `abstract` (or `create`).
        rules: the model's `SHARDING_RULES`.
        mesh: from `parallel.mesh.make_mesh`.
    """
    params = param_shardings(state["params"], rules, mesh)
    places: State = {name: replicated(mesh) for name in ("step", "updates", "skipped")}
    places |= {"params": params, "optimizer": optimizer_shardings(state["optimizer"], state["params"], params)}
    if "objective" in state:
        places["objective"] = optimizer_shardings(state["objective"], state["params"], params)
    return places | ({"ema": params} if "ema" in state else {})


def with_shardings(state: Mapping[str, Any], places: Mapping[str, Any]) -> State:
    """The abstract state with its shardings: the target of a restore, and what a step is lowered with."""

    def place(leaf: Any, sharding: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(place, dict(state), dict(places))
