"""Modules and plain dicts of arrays."""

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.nn.dense import Dense
from vitzoo.nn.paths import flatten, unflatten


class Pair(nnx.Module):
    def __init__(self, *, rngs):
        self.blocks = state.stacked(lambda rngs: Dense(8, 16, rngs=rngs), 3, rngs)
        self.head = Dense(16, 4, rngs=rngs)


def build(rngs):
    return Pair(rngs=rngs)


def test_abstract_gives_shapes_nested_as_the_modules_are():
    _, shapes = state.abstract(build)
    assert shapes["blocks"]["*"]["kernel"].shape == (3, 8, 16)
    assert shapes["head"]["bias"].shape == (4,)
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(shapes))


def test_initial_parameters_are_those_of_the_module_and_depend_on_the_seed_alone():
    def one(rngs):
        return Dense(8, 4, rngs=rngs)

    first, other = (state.initialise(one, seed)["kernel"] for seed in (0, 1))
    np.testing.assert_array_equal(first, one(nnx.Rngs(0)).kernel[...])
    assert (first != other).all()


def test_initial_parameters_are_bitwise_the_same_on_one_and_on_eight_devices():
    mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,))
    where = jax.tree.map(lambda leaf: NamedSharding(mesh, PartitionSpec(None)), state.abstract(build)[1])
    where["blocks"]["*"]["kernel"] = NamedSharding(mesh, PartitionSpec(None, None, "fsdp"))
    sharded = state.initialise(build, 0, where)
    assert sharded["blocks"]["*"]["kernel"].sharding.spec == PartitionSpec(None, None, "fsdp")
    jax.tree.map(np.testing.assert_array_equal, state.initialise(build, 0), sharded)


def test_stacked_layers_are_drawn_apart_each_with_the_spread_of_one_layer():
    blocks = state.initialise(lambda rngs: state.stacked(lambda r: Dense(64, 64, rngs=r), 4, rngs), 0)["*"]["kernel"]
    limit = (6 / (64 + 64)) ** 0.5  # of Glorot's uniform distribution for 64 x 64
    assert abs(blocks).max() <= limit
    np.testing.assert_allclose(blocks.std((1, 2)), limit / 3**0.5, rtol=0.03)
    assert (blocks[0] != blocks[1]).any()


def test_merge_undoes_split():
    module = Dense(4, 2, rngs=nnx.Rngs(0))
    graph, params = state.split(module)
    merged = state.merge(graph, params)
    np.testing.assert_array_equal(merged.kernel[...], module.kernel[...])


class Listed(nnx.Module):
    def __init__(self, depth):
        self.layers = nnx.List([nnx.Param(np.float32(layer)) for layer in range(depth)])


def test_a_list_of_layers_keeps_its_order_through_a_dict_whose_names_are_text():
    graph, params = state.split(Listed(12))
    assert list(params["layers"])[:2] == ["0", "1"]
    merged = state.merge(graph, unflatten(flatten(params)))  # sorted as text: 0, 1, 10, 11, 2
    assert [float(layer[...]) for layer in merged.layers] == list(range(12))


def test_random_keys_are_refused_by_name():
    with pytest.raises(
        UserError, match=r"model = Dropout: holds rngs/count, a RngCount: give Dropout its rngs at the c"
    ):
        state.abstract(lambda rngs: nnx.Dropout(0.5, rngs=rngs))


class Normed(nnx.Module):
    """A list, an attribute `blocks` that is no stack, and a stack of another name; all with statistics."""

    def __init__(self, *, rngs):
        self.blocks = nnx.BatchNorm(4, rngs=rngs)
        self.listed = nnx.List([nnx.BatchNorm(4, rngs=rngs)])
        self.stages = state.stacked(lambda rngs: nnx.BatchNorm(4, rngs=rngs), 3, rngs)


def test_statistics_are_told_from_parameters_and_stacked_leaves_from_others_by_their_variables():
    graph, shapes = state.abstract(lambda rngs: Normed(rngs=rngs))
    places = ("blocks", "listed/0", "stages/*")
    assert set(flatten(shapes)) == {f"{p}/{leaf}" for p in places for leaf in ("scale", "bias", "mean", "var")}
    assert state.statistics_of(graph, shapes) == {f"{place}/{leaf}" for place in places for leaf in ("mean", "var")}
    assert flatten(shapes)["stages/*/mean"].shape == (3, 4)


def test_values_are_written_into_the_module_that_holds_them():
    module = Normed(rngs=nnx.Rngs(0))
    changed = jax.tree.map(lambda leaf: leaf + 5, state.statistics(module))
    state.update(module, changed)
    jax.tree.map(np.testing.assert_array_equal, state.statistics(module), changed)
    np.testing.assert_array_equal(module.stages.mean[...], np.full((3, 4), 5.0))


def test_a_stack_within_a_stack_is_refused():
    with pytest.raises(UserError, match=r"model = Pair: holds a stack and is stacked itself"):
        state.abstract(lambda rngs: state.stacked(lambda r: Pair(rngs=r), 2, rngs))
