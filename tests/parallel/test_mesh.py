import os
import subprocess
import sys

import jax
import pytest

from vitzoo.errors import UserError
from vitzoo.parallel.mesh import (
    batch_shards,
    devices,
    make_mesh,
    padded_batch_size,
    parse_mesh,
    show_mesh,
    validate_batch,
)


def test_auto_shards_state_over_all_devices_and_one_device_is_a_plain_mesh():
    assert show_mesh(make_mesh("auto", jax.devices())) == "fsdp:8"
    assert show_mesh(make_mesh("auto", jax.devices()[:1])) == "data:1"


def test_sizes_by_axis_make_a_mesh_with_all_four_axes():
    mesh = make_mesh("data:2,fsdp:2,tensor:2", jax.devices())
    assert dict(mesh.shape) == {"data": 2, "fsdp": 2, "tensor": 2, "sequence": 1}
    assert show_mesh(mesh) == "data:2,fsdp:2,tensor:2"
    assert batch_shards(mesh) == 4
    assert dict(make_mesh("fsdp:8", jax.devices()).shape) == {"data": 1, "fsdp": 8, "tensor": 1, "sequence": 1}


def test_axes_are_automatic_so_that_modules_need_no_sharding_of_their_own():
    assert {str(kind) for kind in make_mesh("auto", jax.devices()).axis_types} == {"AxisType.Auto"}


@pytest.mark.parametrize(
    "spec", ["", "model:8", "data", "data:x", "data:0", "data:2,data:4", "data:-8", "data:8;fsdp:1"]
)
def test_a_mesh_that_cannot_be_read_is_refused(spec):
    with pytest.raises(UserError, match="mesh"):
        parse_mesh(spec)


@pytest.mark.parametrize("spec", ["data:4", "data:4,fsdp:4"])
def test_a_mesh_that_is_not_all_devices_is_refused_with_both_numbers(spec):
    with pytest.raises(UserError, match=r"takes (4|16) devices, but there are 8"):
        make_mesh(spec, jax.devices())


def test_a_platform_that_is_not_here_is_refused_naming_what_is():
    with pytest.raises(UserError, match=r"platform = gpu: no such device here; found cpu:8"):
        devices("gpu")
    assert len(devices("cpu")) == len(devices("")) == 8


def test_a_platform_asked_for_by_the_environment_is_refused_too():
    code = (
        "from vitzoo.parallel.mesh import devices\n"
        "for name in ('', 'cuda', 'tpu'):\n"
        "    try: devices(name)\n"
        "    except Exception as error: print(error)\n"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cuda", "XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "JAX_PLATFORMS = cuda: no such device here; found cpu:1",
        "platform = cuda: no such device here; found cpu:1",
        "platform = tpu: no such device here; found cpu:1 (JAX_PLATFORMS = cuda)",
    ]


@pytest.mark.parametrize(
    ("batch_size", "accumulate", "message"),
    [
        (10, 1, "data.batch_size = 10: does not divide over data:8 with accumulate = 1 (nearest: 8, 16)"),
        (100, 1, "data.batch_size = 100: does not divide over data:8 with accumulate = 1 (nearest: 96, 104)"),
        (64, 3, "data.batch_size = 64: does not divide over data:8 with accumulate = 3 (nearest: 48, 72)"),
        (5, 1, "data.batch_size = 5: does not divide over data:8 with accumulate = 1 (nearest: 8)"),
    ],
)
def test_a_batch_that_does_not_divide_is_refused_with_the_numbers_and_the_nearest_good_ones(
    batch_size, accumulate, message
):
    with pytest.raises(UserError) as refusal:
        validate_batch(batch_size, accumulate, make_mesh("data:8", jax.devices()))
    assert str(refusal.value) == message


@pytest.mark.parametrize("spec", ["data:2,tensor:4", "data:2,sequence:4", "data:2,tensor:2,sequence:2"])
def test_devices_along_tensor_and_sequence_share_their_examples(spec):
    mesh = make_mesh(spec, jax.devices())
    assert show_mesh(mesh) == spec
    assert batch_shards(mesh) == 2
    validate_batch(6, 3, mesh)
    with pytest.raises(UserError, match="data:2"):
        validate_batch(5, 1, mesh)


def test_an_evaluation_batch_is_filled_up_to_what_divides():
    mesh = make_mesh("data:8", jax.devices())
    assert [padded_batch_size(size, mesh) for size in (1, 5, 8, 9, 64)] == [8, 8, 8, 16, 64]
