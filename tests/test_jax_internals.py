"""What vitzoo reads of JAX's internals, in every release that it allows: a new one is added here before pyproject's."""

import functools
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas
from jax.sharding import AxisType, PartitionSpec

from vitzoo import jax_internals

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())


def equation(name, function, *arguments):
    (found,) = (one for one in jax.make_jaxpr(function)(*arguments).jaxpr.eqns if one.primitive.name == name)
    return found


def test_the_versions_are_those_that_the_package_allows_and_this_is_one_of_them():
    (allowed,) = (one for one in PYPROJECT["project"]["dependencies"] if one.startswith("jax>"))
    first, last = jax_internals.VERSIONS[0], jax_internals.VERSIONS[-1]
    major, minor = last.split(".")
    assert allowed == f"jax>={first},<{major}.{int(minor) + 1}"
    assert ".".join(jax.__version__.split(".")[:2]) in jax_internals.VERSIONS


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize(("carried", "stacked"), [(1, 0), (0, 1), (2, 3), (3, 1)])
def test_a_scan_tells_its_length_its_body_and_what_is_carried(length, carried, stacked):
    """By definition of `lax.scan`: f(carry, x) -> (carry, y); the carry's leaves come first, whatever their shapes."""
    carry = [jnp.ones((2, 1)[: n % 3]) for n in range(carried)]

    def body(carry, x):
        return [2 * one for one in carry], [x * n for n in range(stacked)]

    found = jax_internals.scan_of(equation("scan", lambda xs: lax.scan(body, carry, xs), jnp.ones((length, 1))))
    assert (found.length, found.carried) == (length, carried)
    assert len(found.body.outvars) == carried + stacked


def test_a_call_is_told_from_what_repeats_or_chooses():
    a = jnp.ones((3, 3))
    own = jax.custom_jvp(lambda a: a @ a)
    own.defjvp(lambda given, moved: (own(*given), moved[0]))
    for function in (jax.jit(lambda a: a @ a), own, jax.checkpoint(lambda a: a @ a)):
        (found,) = jax.make_jaxpr(function)(a).jaxpr.eqns
        assert [one.primitive.name for one in jax_internals.called(found).eqns] == ["dot_general"]
    scanned = equation("scan", lambda a: lax.scan(lambda c, _: (c @ a, None), a, None, length=7)[0], a)
    chosen = equation("cond", lambda a: lax.cond(a.sum() > 0, lambda: a @ a, lambda: a), a)
    assert jax_internals.called(scanned) is None
    assert jax_internals.called(chosen) is None
    assert jax_internals.repeats(scanned) == 7
    assert len([inner for value in chosen.params.values() for inner in jax_internals.held_by(value)]) == 2


def test_kernels_and_mapped_functions_run_once_for_each_cell_and_device():
    def kernel(a, out):
        out[...] = a[...]

    a = jnp.ones((8, 4))
    call = pallas.pallas_call(kernel, grid=(2, 3), out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype), interpret=True)
    assert jax_internals.repeats(equation("pallas_call", call, a)) == 6
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    spec = PartitionSpec("x", "y")
    mapped = jax.shard_map(lambda a: a * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    assert jax_internals.repeats(equation("shard_map", mapped, a)) == 8


def test_products_and_convolutions_tell_their_axes():
    a, b, images, kernel = (jnp.ones(shape) for shape in ((2, 3, 4), (2, 5, 4), (1, 4, 4, 2), (3, 3, 2, 5)))
    product = equation("dot_general", lambda a, b: jnp.einsum("bij,bkj->bik", a, b), a, b)
    assert jax_internals.contracted(product) == (2,)
    names = ("NHWC", "HWIO", "NHWC")
    convolve = functools.partial(
        lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", dimension_numbers=names
    )
    assert jax_internals.output_axis(equation("conv_general_dilated", convolve, images, kernel)) == 3


def test_one_process_alone_has_no_connection_to_others():
    state = jax_internals.distributed_state()
    assert state.client is None
    assert state.preemption_sync_manager is None
    assert hasattr(state, "num_processes")
    assert hasattr(state, "process_id")
