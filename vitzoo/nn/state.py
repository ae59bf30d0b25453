"""Modules on one side, plain nested dicts of arrays on the other: the only file that knows Flax's state API.

Every parameter is an `nnx.Param`, and no module holds any other state. A plain dict crosses `jax.jit` at a tenth of
the cost of an `nnx.State`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from flax import nnx

from vitzoo.errors import Refused

Params = dict[str, Any]
"""A nested dict of arrays (or `jax.ShapeDtypeStruct`s), as its module's attributes are nested."""

Module = TypeVar("Module", bound=nnx.Module)


def split(module: nnx.Module) -> tuple[nnx.GraphDef, Params]:
    """A module's static structure and its parameters.

    Raises:
        Refused: it holds other state, such as running averages or random keys.
    """
    graph, state, others = nnx.split(module, nnx.Param, ...)  # type: ignore[misc]
    for path, variable in nnx.to_flat_state(others):
        raise Refused(
            "model",
            type(module).__name__,
            f"holds {'/'.join(map(str, path))}, a {type(variable).__name__}, and only nnx.Param is kept: take "
            "LayerNorm or GroupNorm for BatchNorm, and give Dropout its rngs at the call, rngs=nnx.Rngs(key)",
        )
    return graph, _with_text(nnx.to_pure_dict(state))


def merge(graph: nnx.GraphDef, params: Params) -> Any:
    """The module of this structure with these parameters; cheap, and made inside a step."""
    return nnx.merge(graph, nnx.restore_int_paths(params))


def _with_text(params: Any) -> Any:
    """The places in a list, `blocks/0`, as text: what they are on disk, and sorted as there. Flax goes by the order."""
    if not isinstance(params, dict):
        return params
    return {str(name): _with_text(value) for name, value in params.items()}


def abstract(build: Callable[[nnx.Rngs], nnx.Module]) -> tuple[nnx.GraphDef, Params]:
    """The structure and the shapes of what `build` makes; nothing is allocated or computed."""
    return split(nnx.eval_shape(lambda: build(nnx.Rngs(0))))


def initialise(build: Callable[[nnx.Rngs], nnx.Module], seed: int, shardings: Params | None = None) -> Params:
    """Initial parameters, drawn under one jit so that they are bitwise the same on every mesh. Not to be traced.

    Args:
        build: makes the module from its random keys.
        seed: the only source of randomness.
        shardings: a sharding for each parameter, nested alike; `None` leaves them on the default device.
    """

    def init(key: jax.Array) -> Params:
        return split(build(nnx.Rngs(key)))[1]

    # on CPUs most of the time goes into optimising code that runs once; level 1 gives the same bits
    options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
    return jax.jit(init, out_shardings=shardings, compiler_options=options)(jax.random.key(seed))


def stacked(make: Callable[[nnx.Rngs], Module], depth: int, rngs: nnx.Rngs) -> Module:
    """`depth` modules of one structure, stored as one: every parameter gets a leading axis of `depth`.

    Each is initialised by itself, so that an initialiser sees the shape of one layer.
    """
    graphs = []

    def init(key: jax.Array) -> Params:
        graph, params = split(make(nnx.Rngs(key)))
        graphs.append(graph)  # static, so it may leave the vmap
        return params

    params = jax.vmap(init)(jax.random.split(rngs.params(), depth))
    return merge(graphs[0], params)
