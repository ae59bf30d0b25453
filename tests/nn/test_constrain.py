"""Activations on a mesh."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec

from vitzoo.nn.constrain import constrain, set_rules

TABLE = {"batch": ("data", "fsdp"), "heads": "tensor"}


def laid(x, axes, table=TABLE, shape=(2, 2, 2)):
    mesh = jax.make_mesh(shape, ("data", "fsdp", "tensor"), axis_types=(AxisType.Auto,) * 3)

    def function(x):
        with set_rules(table, mesh):
            return constrain(x, axes)

    return jax.jit(function)(x).sharding.spec


def test_without_a_table_nothing_happens():
    x = jnp.ones((4, 4))
    assert constrain(x, ("batch", None)) is x


def test_each_named_axis_goes_where_the_table_says():
    spec = laid(jnp.ones((8, 5, 4, 3)), ("batch", "tokens", "heads", None))
    assert spec == PartitionSpec(("data", "fsdp"), None, "tensor")


def test_a_dimension_that_does_not_divide_stays_whole():
    assert laid(jnp.ones((8, 3)), ("batch", "heads")) == PartitionSpec(("data", "fsdp"))


def test_the_mesh_may_be_jax_own():
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
    with jax.set_mesh(mesh), set_rules({"batch": "data"}):
        spec = jax.jit(lambda x: constrain(x, ("batch", None)))(jnp.ones((8, 3))).sharding.spec
    assert spec == PartitionSpec("data")
