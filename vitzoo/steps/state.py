"""The train state: a plain nested dict of arrays, so that it crosses `jax.jit` fast and has stable paths on disk.

params     the model's variables: its parameters, and its statistics, which forward passes change
objective  what the objective remembers (`objectives.base.WithMemory`); absent where it doesn't
frozen     by setting the variables of models to learn from (`objectives.base.Frozen`), which pass through unchanged and
           aren't saved; absent without one
optimizer  the optimizer's state: `updates`, its own count of steps applied, and the method's moments
ema        float32 moving average of the parameters, and the statistics as they are; absent when off
step       int32, global batches consumed: always advances
updates    int32, steps applied
skipped    int32, steps not applied because loss or gradients weren't finite; step = updates + skipped
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from vitzoo.errors import UserError
from vitzoo.nn.paths import Leaf, Shaped, Tree
from vitzoo.nn.state import Params, Shapes
from vitzoo.objectives.base import Frozen, Memory, Objective, WithMemory
from vitzoo.optim.build import Chain
from vitzoo.parallel.sharding import Rules, Shardings, Sized, optimizer_shardings, param_shardings, replicated

State = dict[str, Any]
NONE: Mapping[str, Frozen] = MappingProxyType({})


def create(
    params: Params,
    tx: Chain,
    ema: float = 0.0,
    shardings: State | None = None,
    objective: Objective | None = None,
) -> State:
    """The state before the first batch, but for frozen models.

    Args:
        params: all parameters; used as they are, so they must not be used again once a step has donated the state.
        tx: the optimizer, from `optim.build`.
        ema: above 0, the state holds a moving average, which starts at the parameters.
        shardings: of the whole state, from `shardings`; moments are made where they belong.
        objective: bound; one that remembers adds its memory.
    """
    others = ("params", "frozen")
    rest = None if shardings is None else {name: place for name, place in shardings.items() if name not in others}
    return {"params": params, **jax.jit(lambda p: _rest(p, tx, ema, objective), out_shardings=rest)(params)}


def _rest(params: Params, tx: Chain, ema: float, objective: Objective | None) -> State:
    trained, _ = tx.partition(params)
    state: State = {name: jnp.zeros((), jnp.int32) for name in ("step", "updates", "skipped")}
    state["optimizer"] = tx.init(trained)
    if ema:
        state["ema"] = jax.tree.map(lambda p: jnp.array(p, jnp.float32, copy=True), params)
    if isinstance(objective, WithMemory):
        state["objective"] = memory_of(objective, params)
    return state


def memory_of(objective: WithMemory, params: Params) -> State:
    """What an objective remembers before the first batch."""
    return jax.tree.map(jnp.array, dict(objective.init(params)))


def part(state: Tree[Leaf], name: str) -> Tree[Leaf]:
    """A part of the state that is nested itself."""
    found = state[name]
    assert isinstance(found, Mapping)
    return found


def memory(state: Tree[Leaf]) -> Memory | None:
    """What an objective is called with: its own memory and the frozen models' variables; None without either."""
    parts = [part(state, name) for name in ("objective", "frozen") if name in state]
    return {name: held for one in parts for name, held in one.items()} if parts else None


def evaluated(state: Tree[Leaf]) -> tuple[Tree[Leaf], str]:
    """The parameters that a state is evaluated by, and which they are: `ema`, the moving average where there is one,
    or `raw`.
    """
    return (part(state, "ema"), "ema") if "ema" in state else (part(state, "params"), "raw")


def abstract(
    shapes: Shapes,
    tx: Chain,
    ema: float = 0.0,
    objective: Objective | None = None,
    frozen: Mapping[str, Frozen] = NONE,
) -> State:
    """The state's shapes; nothing is allocated.

    Raises:
        UserError: what the objective remembers has the name of a frozen model.
    """
    state = {"params": dict(shapes), **jax.eval_shape(lambda p: _rest(p, tx, ema, objective), shapes)}
    for name in frozen:
        if name in state.get("objective", {}):
            raise UserError(f"objective.{name}", None, "is also what `init` calls a part of the memory; rename one")
    return state | ({"frozen": {name: one.shapes for name, one in frozen.items()}} if frozen else {})


def shardings(state: Tree[Shaped], rules: Rules, mesh: Mesh, frozen: Mapping[str, Frozen] = NONE) -> State:
    """A sharding for every leaf of the state.

    Args:
        state: from `abstract` (or `create`).
        rules: the model's `SHARDING_RULES`.
        mesh: from `parallel.mesh.make_mesh`.
        frozen: the models to learn from, by setting.
    """
    shapes = part(state, "params")
    params = param_shardings(shapes, rules, mesh)
    places: State = {name: replicated(mesh) for name in ("step", "updates", "skipped")}
    places |= {"params": params, "optimizer": optimizer_shardings(part(state, "optimizer"), shapes, params)}
    if "objective" in state:
        places["objective"] = optimizer_shardings(part(state, "objective"), shapes, params)
    if frozen:
        places["frozen"] = frozen_shardings(frozen, mesh)
    return places | ({"ema": params} if "ema" in state else {})


def frozen_shardings(frozen: Mapping[str, Frozen], mesh: Mesh) -> State:
    """A sharding for every variable of the frozen models, each laid out by its own model's rules."""
    return {name: param_shardings(one.shapes, one.rules, mesh) for name, one in frozen.items()}


def with_shardings(state: Tree[Sized], places: Shardings) -> State:
    """The abstract state with its shardings: the target of a restore, and what a step is lowered with."""

    def place(leaf: Sized, sharding: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(place, dict(state), dict(places))
