"""Which device holds which part of every array: a table from paths to logical axes, and one from those to mesh axes.

A part or model says, for each leaf, what its dimensions mean (`("embed", "mlp")`); this file says where a meaning goes.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vitzoo.errors import UserError
from vitzoo.nn import constrain
from vitzoo.nn.paths import Shaped, Tree, flatten, is_stacked, match_rules, unflatten
from vitzoo.parallel.mesh import BATCH_AXES

PARAMETER_AXES: dict[str, str | None] = {
    "embed": "fsdp",  # the model's width: the one dimension nearly every large leaf has
    "mlp": "tensor",
    "heads": "tensor",
    "classes": "tensor",
    "vocabulary": "tensor",
    "head_dim": None,
    "patch": None,
    "channels": None,
    "positions": None,
}
"""Logical axis of a parameter to mesh axis."""

ACTIVATION_AXES: dict[str, str | tuple[str, ...] | None] = {
    "batch": BATCH_AXES,
    "tokens": "sequence",
    "heads": "tensor",
    "mlp": "tensor",
}
"""Logical axis of an activation to mesh axes. What isn't named stays whole."""

Rules = Sequence[tuple[str, tuple[str | None, ...] | None]]
Shardings = Tree[NamedSharding]
"""Where each leaf lies, nested as they are."""


class Sized(Shaped, Protocol):
    """An array or its shape and type."""

    @property
    def dtype(self) -> np.dtype: ...


def rules_of(model: type) -> Rules:
    """A model's `SHARDING_RULES`; where it has none, its parameters stay whole.

    Raises:
        UserError: they aren't pairs of a path and its axes.
    """
    rules = getattr(model, "SHARDING_RULES", ((".*", None),))
    if not isinstance(rules, tuple | list):
        raise UserError("SHARDING_RULES", rules, _FORM)
    for row in rules:
        if not (isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[0], str) and _are_axes(row[1])):
            raise UserError("SHARDING_RULES", row, _FORM)
        for axis in row[1] or ():
            _mesh_axis(row[0], axis)
    return rules


_FORM = 'rows are (path, axes), axes a tuple, one for each dimension, or None: ("head/kernel", ("embed", "classes"))'


def _are_axes(axes: Any) -> bool:
    return axes is None or (isinstance(axes, tuple | list) and all(isinstance(axis, str | None) for axis in axes))


def param_shardings(shapes: Tree[Shaped], rules: Rules, mesh: Mesh) -> Shardings:
    """A `NamedSharding` for each parameter, nested as `shapes`.

    Args:
        shapes: nested dict of arrays or `ShapeDtypeStruct`s.
        rules: (regular expression on the displayed path, logical axes of one layer's dimensions), first match wins;
            None replicates. The layer axis of stacked blocks is never split.
        mesh: from `make_mesh`.

    Raises:
        UserError: a leaf that no rule matches, or a rule whose axes don't fit its leaf.
    """
    table = match_rules(rules, shapes, "SHARDING_RULES", every_leaf=True, every_rule=False)
    return unflatten(
        {
            path: NamedSharding(mesh, _spec(path, leaf.shape, table[path], mesh))
            for path, leaf in flatten(shapes).items()
        }
    )


def _spec(path: str, shape: Sequence[int], logical: Sequence[str | None] | None, mesh: Mesh) -> PartitionSpec:
    first, logical = int(is_stacked(path)), logical or ()
    if logical and len(logical) != len(shape) - first:
        raise UserError(
            "SHARDING_RULES", path, f"one layer has shape {tuple(shape[first:])}, but the rule says {tuple(logical)}"
        )
    wanted = {first + index: axis for index, name in enumerate(logical) if (axis := _mesh_axis(path, name))}
    return PartitionSpec(*_place(wanted, shape, first, mesh.shape))


def _mesh_axis(path: str, name: str | None) -> str | None:
    if name is not None and name not in PARAMETER_AXES:
        raise UserError("SHARDING_RULES", path, f"no logical axis {name!r}; there are {', '.join(PARAMETER_AXES)}")
    return None if name is None else PARAMETER_AXES[name]


def _place(wanted: Mapping[int, str], shape: Sequence[int], first: int, sizes: Mapping[str, int]) -> list[str | None]:
    """Each wanted mesh axis on its dimension, or, where that doesn't divide, on the largest free one that does."""
    spec: list[str | None] = [None] * len(shape)
    wanted = {index: axis for index, axis in wanted.items() if sizes[axis] > 1}
    for index, axis in wanted.items():
        if shape[index] % sizes[axis] == 0 and axis not in spec:
            spec[index] = axis
    for axis in wanted.values():
        free = [i for i in range(first, len(shape)) if spec[i] is None and shape[i] % sizes[axis] == 0]
        if axis not in spec and free:
            spec[max(free, key=lambda i: shape[i])] = axis
    return spec


def optimizer_shardings(state: Tree[Shaped], params: Tree[Shaped], shardings: Shardings) -> Shardings:
    """Shardings of the optimizer's leaves, from those of the parameters they belong to.

    A leaf belongs to the parameter whose path ends its own. Of the same shape, it lies as its parameter does; with one
    dimension less (factored second moments), as its parameter without that dimension; any other is replicated. Of a
    stack there may be fewer layers, those that aren't frozen.

    Args:
        state: nested dict of `ShapeDtypeStruct`s, the optimizer's state.
        params: the parameters' shapes.
        shardings: the parameters' shardings, from `param_shardings`.
    """
    shapes, places = flatten(params), flatten(shardings)
    replicated = NamedSharding(next(iter(places.values())).mesh, PartitionSpec())

    def place(path: str, leaf: Shaped) -> NamedSharding:
        owner = _owner(path, shapes)
        if owner is None:
            return replicated
        whole = shapes[owner].shape
        if is_stacked(owner) and leaf.shape:
            whole = (leaf.shape[0], *whole[1:])
        return _derived(path, leaf.shape, whole, places[owner]) or replicated

    return unflatten({path: place(path, leaf) for path, leaf in flatten(state).items()})


def _owner(path: str, params: Mapping[str, Shaped]) -> str | None:
    parts = path.split("/")
    return next((name for start in range(len(parts)) if (name := "/".join(parts[start:])) in params), None)


def _derived(path: str, shape: Sequence[int], whole: Sequence[int], place: NamedSharding) -> NamedSharding | None:
    spec = list(place.spec) + [None] * (len(whole) - len(place.spec))
    if tuple(shape) == tuple(whole):
        return place
    cuts = [cut for cut in range(len(whole)) if tuple(whole[:cut]) + tuple(whole[cut + 1 :]) == tuple(shape)]
    if not cuts:
        return None
    cut = cuts[0] if "v_col" in path.split("/") else cuts[-1]  # equal sizes: optax's row is what is left of the last
    return NamedSharding(place.mesh, PartitionSpec(*spec[:cut], *spec[cut + 1 :]))


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows over data × fsdp; every other dimension whole. Fits arrays of any rank."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def activations(mesh: Mesh) -> contextlib.AbstractContextManager[None]:
    """While open, `nn.constrain` lays activations over this mesh. It must be open while a step is traced."""
    return constrain.set_rules(ACTIVATION_AXES, mesh)


def rows_of_this_process(batch_size: int, mesh: Mesh) -> slice:
    """The rows of a global batch that lie on this process's devices: those it has to load.

    Raises:
        UserError: the mesh's device order gives this process rows that aren't neighbours.
    """
    where = batch_sharding(mesh).addressable_devices_indices_map((batch_size,))
    parts = sorted({index[0].indices(batch_size)[:2] for index in where.values() if index})
    joined = sum(stop - start for start, stop in parts)
    rows = slice(parts[0][0], parts[-1][1])
    if rows.stop - rows.start != joined:
        raise UserError("mesh", dict(mesh.shape), f"this process would hold separate parts of a batch, rows {parts}")
    return rows


def put(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """The global batch on the devices, from the rows that each process loaded (`rows_of_this_process`).

    `id` stays behind: devices have no use for it, and its 64 bits no room there.
    """
    where = batch_sharding(mesh)
    return {key: _put(value, where) for key, value in batch.items() if key != "id"}


def _put(rows: np.ndarray, where: NamedSharding) -> jax.Array:
    return jax.make_array_from_process_local_data(where, np.asarray(rows))


def bytes_per_device(shapes: Tree[Sized], shardings: Shardings) -> int:
    """Memory that a tree takes on the fullest device."""
    pairs = zip(jax.tree.leaves(shapes), jax.tree.leaves(shardings), strict=True)
    return sum(math.prod(place.shard_shape(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf, place in pairs)
