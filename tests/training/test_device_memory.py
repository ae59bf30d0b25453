"""A training that won't fit says so before it allocates."""

import jax
import pytest

from vitzoo.config import resolve
from vitzoo.training import device_memory, header, setup


@pytest.fixture(scope="module")
def task():
    resolved = resolve("quickstart")
    made = setup.prepare(resolved, setup.mesh_of(resolved.experiment))
    made.stream.close()
    return made


def test_one_line_where_a_step_does_not_fit_and_none_where_it_does(task, monkeypatch):
    needed = device_memory.estimate(task).peak
    for share, warned in ((0.9, True), (1.1, False)):
        monkeypatch.setattr(device_memory, "memory_of", lambda device, share=share: share * needed)
        lines = [line for line in header.warnings(task) if "a step takes about" in line]
        assert len(lines) == warned
    monkeypatch.setattr(device_memory, "memory_of", lambda device: None)  # a device that doesn't say
    assert device_memory.warning(task) == ""


def test_a_small_model_is_not_traced_for_it(task, monkeypatch):
    monkeypatch.setattr(device_memory, "estimate", lambda task: pytest.fail("traced"))
    monkeypatch.setattr(device_memory, "memory_of", lambda device: 1e15)
    assert device_memory.warning(task) == ""


def test_the_bound_is_above_the_estimate(task):
    assert device_memory._bound(task) > device_memory.estimate(task).peak


def test_simulated_devices_share_the_memory_of_the_machine():
    device = jax.devices()[0]
    assert device_memory.memory_of(device) == device_memory.machine_memory() / jax.local_device_count("cpu")
