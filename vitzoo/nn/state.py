"""Modules on one side, plain nested dicts of arrays on the other: the only file that knows Flax's state API.

A module holds parameters (`nnx.Param`), which gradients change, and statistics (`nnx.BatchStat` and any other variable
but random state), which its calls change. Both are leaves of one dict. A plain dict crosses `jax.jit` at a tenth of the
cost of an `nnx.State`.

Modules that `stacked` stores as one have their leaves below a `*`, `encoder/blocks/*/mlp/up/kernel`: a mark of the
variables themselves, so that no module is taken for a stack because of its attribute's name.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo import own_values
from vitzoo.errors import UserError
from vitzoo.nn.paths import LAYERS, Tree, flatten, is_stacked, unflatten
from vitzoo.registry import name_of

Params = Tree[jax.Array]
"""A nested dict of arrays, as its module's attributes are nested."""
Shapes = Tree[jax.ShapeDtypeStruct]
"""The same before anything is computed."""
HostParams = Tree[np.ndarray]
"""The same on the host, as they are read from a disk."""

Module = TypeVar("Module", bound=nnx.Module)
Node = TypeVar("Node")
"""A module, which a structure and its variables make again."""

DEPTH = "path_in_layer"
"""Metadata of a stacked variable: how many names of its path lead from the layer to it."""

STATISTICS = nnx.Not(nnx.Any(nnx.Param, nnx.RngState, nnx.Intermediate))


def split(module: Node) -> tuple[nnx.GraphDef[Node], Params]:
    """A module's static structure and its variables, parameters and statistics alike.

    Raises:
        UserError: it holds random keys, a plain array, or parameters that are no floats.
    """
    _check_arrays(module)
    graph, state, others = nnx.split(module, nnx.Not(nnx.RngState), ...)  # type: ignore[misc]
    for path, variable in nnx.to_flat_state(others):
        remedy = "give Dropout its rngs at the call, rngs=nnx.Rngs(key)"
        raise _holds(module, path, f"a {type(variable).__name__}: {remedy}")
    return graph, _plain(state)


def _check_arrays(module: Any) -> None:
    for path, value in nnx.iter_graph(module):
        if isinstance(value, nnx.Param):
            for leaf in jax.tree.leaves(value.get_value()):
                if not own_values.is_numbers(leaf, jnp.floating):
                    message = f"an nnx.Param of {own_values.shown(leaf)}: what is learned must be floats"
                    raise _holds(module, path, message)
        elif own_values.is_array(value) and not isinstance(value, nnx.Variable | np.generic):
            freeze = f'optimizer.freeze=("{_joined(path)}",)'
            message = f"a plain array: make it in the call, or an nnx.Param, which {freeze} keeps as it is"
            raise _holds(module, path, message)


def _holds(module: Any, path: Sequence[Any], message: str) -> UserError:
    name = name_of(module)
    field, value = ("model.name", name) if name else ("model", type(module).__name__)
    return UserError(field, value, f"holds {_joined(path)}, {message}")


def _joined(path: Sequence[Any]) -> str:
    return "/".join(map(str, path))


def merge(graph: nnx.GraphDef[Node], params: Params | Shapes) -> Node:
    """The module of this structure with these variables; cheap, and made inside a step."""
    return nnx.merge(graph, nnx.restore_int_paths(_without_marks(params)))


def statistics(module: nnx.Module) -> Params:
    """The variables that calls change and gradients don't, nested as `split` nests them; empty where there are none."""
    return _plain(nnx.state(module, STATISTICS))


def update(module: nnx.Module, values: Params) -> None:
    """Gives variables of a module these values, in place."""
    nnx.update(module, nnx.restore_int_paths(_without_marks(values)))


def statistics_of(graph: nnx.GraphDef, shapes: Shapes) -> frozenset[str]:
    """The paths of the statistics among a module's leaves, from its structure and their shapes."""
    return frozenset(flatten(statistics(merge(graph, shapes))))


def _plain(state: Any) -> Params:
    """The values by name. Places in a list, `blocks/0`, are text: what they are on disk, and sorted as there."""
    return unflatten({_name(path, variable): variable.get_value() for path, variable in nnx.to_flat_state(state)})


def _name(path: tuple[Any, ...], variable: nnx.Variable) -> str:
    names, inner = [str(name) for name in path], variable.get_metadata().get(DEPTH)
    if inner is not None:
        names.insert(len(names) - inner, LAYERS)
    return "/".join(names)


def _without_marks(params: Any) -> Any:
    if not isinstance(params, Mapping):
        return params
    return {name: _without_marks(value) for name, value in params.get(LAYERS, params).items()}


def abstract(build: Callable[[nnx.Rngs], nnx.Module]) -> tuple[nnx.GraphDef, Shapes]:
    """The structure and the shapes of what `build` makes; nothing is allocated or computed."""
    graph, shapes = split(nnx.eval_shape(lambda: build(nnx.Rngs(0))))
    return graph, cast(Shapes, shapes)  # what `eval_shape` leaves in the variables in place of arrays


def initialise(
    build: Callable[[nnx.Rngs], nnx.Module], seed: int, shardings: Tree[jax.sharding.Sharding] | None = None
) -> Params:
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
    """`depth` modules of one structure, stored as one: every variable gets a leading axis of `depth`, and is marked.

    Each is initialised by itself, so that an initialiser sees the shape of one layer.

    Raises:
        UserError: a layer holds a stack itself.
    """
    graphs = []

    def init(key: jax.Array) -> Params:
        graph, params = split(make(nnx.Rngs(key)))
        graphs.append(graph)  # static, so it may leave the vmap
        return params

    params = jax.vmap(init)(jax.random.split(rngs.params(), depth))
    if any(is_stacked(path) for path in flatten(params)):
        message = "holds a stack and is stacked itself; keep the inner layers in an nnx.List"
        raise UserError("model", type(merge(graphs[0], params)).__name__, message)
    module = merge(graphs[0], params)
    for names, variable in nnx.to_flat_state(nnx.state(module)):
        variable.set_metadata(DEPTH, len(names))
    return module
