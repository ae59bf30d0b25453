"""A state laid out without devices takes what the real one takes."""

import jax
import jax.numpy as jnp
import pytest

from vitzoo.parallel.mesh import make_mesh, parse_mesh
from vitzoo.planning.layout import StateLayout
from vitzoo.steps import state as states


def held(tree):
    """Bytes on the first device."""
    first = jax.devices()[0]
    shards = [shard for leaf in jax.tree.leaves(tree) for shard in leaf.addressable_shards if shard.device == first]
    return sum(shard.data.nbytes for shard in shards)


@pytest.mark.parametrize(
    ("name", "mesh"),
    [("gpt", "fsdp:8"), ("gpt", "data:2,fsdp:2,tensor:2"), ("t5", "data:2,fsdp:2,tensor:2")],
)  # AdamW, and Adafactor with its factored moments
def test_state_bytes_equal_those_of_the_real_state(draw, name, mesh):
    drawn = draw(name, "cpu")
    places = states.shardings(drawn.state, drawn.rules, make_mesh(mesh, jax.devices()))
    zeros = lambda: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), drawn.state["params"])  # noqa: E731
    params = jax.jit(zeros, out_shardings=places["params"])()
    state = states.create(params, drawn.chain, drawn.experiment.ema, places)
    layout = StateLayout(drawn.state, drawn.rules, parse_mesh(mesh))
    assert layout.parameters == held(state["params"])
    assert layout.parameters + layout.optimizer == held(state)


def test_a_dimension_that_does_not_divide_is_shown_with_where_it_went(draw):
    # width 1664 = 128 · 13 doesn't divide by 256: kernels with a larger dimension that does are cut there, 8192 of the
    # MLP; those of attention (16 heads of 104) stay whole
    drawn = draw("vit/imagenet:G/14")
    found = {one.leaf: one for one in StateLayout(drawn.state, drawn.rules, {"fsdp": 256}).fallbacks}
    up = found["encoder/blocks/*/mlp/up/kernel"]
    assert (up.axis, up.size, up.placed) == ("fsdp", 1664, 8192)
    assert found["encoder/blocks/*/attention/query/kernel"].placed is None
    assert StateLayout(drawn.state, drawn.rules, {"data": 2, "fsdp": 128}).fallbacks == []
