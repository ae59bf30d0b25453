"""Where activations lie on a mesh, said by the model in logical axes; nothing happens without a mesh."""

import contextlib
import contextvars
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MeshAxes = str | tuple[str, ...] | None

_TABLE: contextvars.ContextVar[tuple[Mapping[str, MeshAxes], Mesh | None] | None]
_TABLE = contextvars.ContextVar("logical axes to mesh axes", default=None)


@contextlib.contextmanager
def set_rules(table: Mapping[str, MeshAxes], mesh: Mesh | None = None) -> Iterator[None]:
    """While open, `constrain` follows `table`. It must be open while a step is traced.

    Args:
        table: logical axis to mesh axis, axes, or None.
        mesh: the mesh meant; without one, JAX's own (`jax.set_mesh`, `jax.sharding.use_abstract_mesh`).
    """
    token = _TABLE.set((table, mesh))
    try:
        yield
    finally:
        _TABLE.reset(token)


def constrain(x: jax.Array, logical_axes: tuple[str | None, ...]) -> jax.Array:
    """`x` laid over the mesh as the table says; `x` itself without a table or a mesh.

    Args:
        logical_axes: one name for each dimension, such as `("batch", "tokens", "embed")`. A name missing from the
            table, and a dimension that its mesh axes don't divide, stay whole.
    """
    table, mesh = _TABLE.get() or (None, None)
    shape = dict((mesh or jax.sharding.get_abstract_mesh()).shape)
    if table is None or math.prod(shape.values()) == 1:
        return x
    sizes = zip(logical_axes, x.shape, strict=True)
    spec = PartitionSpec(*(_fitting(table.get(axis) if axis else None, size, shape) for axis, size in sizes))
    where: Any = NamedSharding(mesh, spec) if mesh else spec
    return jax.lax.with_sharding_constraint(x, where)


def _fitting(axes: MeshAxes, size: int, mesh: Mapping[str, int]) -> MeshAxes:
    present = tuple(a for a in ((axes,) if isinstance(axes, str) else axes or ()) if a in mesh)
    return present if present and size % math.prod(mesh[a] for a in present) == 0 else None
