"""How many devices of which kind a topology is."""

import pytest

from vitzoo.errors import UserError
from vitzoo.planning import topology
from vitzoo.planning.topology import DEVICES, GIB, peak_flops


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("cpu:8", 8),
        ("v5e:16x16", 256),
        ("v6e:2x4", 8),
        ("v5p:4x4x4", 64),
        ("v4:2x2x1", 4),
        ("h100:8", 8),
        ("h200:3", 3),
        ("a100:16", 16),
    ],
)
def test_a_topology_is_read_and_shown_as_it_is_written(text, count):
    found = topology.parse(text)
    assert (found.count, str(found)) == (count, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v5q:4x4", "did you mean v5p"),
        ("", "It is written KIND:SIZE"),
        ("tpu", r"no such device 'tpu'\. It is"),  # not: did you mean cpu?
        ("v5e", "v5e:16x16"),
        ("v5e:0x3", "2 whole numbers from 1 on"),
        ("v5e:16", "2 whole numbers"),
        ("v5e:3x3", "there are 1x1, 2x2"),
        ("v5p:4x4", "3 whole numbers"),
        ("v5p:3x4x4", "multiples of 4"),
        ("h100:x", "a number of devices: h100:8"),
        ("h100:-8", "a number of devices"),
        ("cpu:8.5", "a number of devices"),
        ("h100:12", "whole boards of 8: h100:8, h100:16"),
        ("a100-80gb:9", "whole boards of 8: a100-80gb:8, a100-80gb:16"),
    ],
)
def test_a_mistaken_topology_is_one_line_that_says_what_is_right(text, said):
    with pytest.raises(UserError, match=said) as refusal:
        topology.parse(text)
    assert refusal.value.field == "topology"
    assert "\n" not in str(refusal.value)


def test_every_kind_states_what_a_roofline_needs_but_the_cpu():
    for name, device in DEVICES.items():
        known = (device.flops, device.flops_float32, device.bandwidth, device.interconnect)
        assert all(known) is (name != "cpu")
        if device.kind:  # the same peak that a run's utilisation is of
            assert peak_flops(device.kind) == device.flops


def test_the_capacity_is_what_programs_get():
    assert topology.parse("v5e:2x2").capacity == 15.75 * GIB  # as its compiler says
    assert topology.parse("h100:8").capacity == 0.75 * 80e9  # what JAX takes by default


def test_the_share_of_a_gpu_follows_its_variable(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".9")
    assert topology.parse("h100:8").capacity == 0.9 * 80e9


def test_larger_topologies_exist_too():
    grown = [str(topology.parse(text).larger) for text in ("v5e:4x8", "h100:8", "v5p:4x4x8")]
    assert grown == ["v5e:8x8", "h100:16", "v5p:8x4x8"]
    assert topology.parse("v5e:16x16").larger is None
