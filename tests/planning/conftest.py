"""Trainings drawn without data or devices, shared by the tests of planning."""

import functools
import sys
from pathlib import Path

import pytest

from vitzoo.config import resolve
from vitzoo.planning.blueprint import blueprint
from vitzoo.planning.estimate import Forecast
from vitzoo.planning.topology import parse

sys.path.append(str(Path(__file__).parents[1] / "weights"))  # where run folders are made

SMALL = {"gpt": "gpt/adder", "vit": "quickstart", "t5": "t5/pretrain", "bert": "bert/pretrain"}


@functools.cache
def drawn(name, platform="tpu", *overrides):
    """A config's blueprint; each is made once, since tracing takes its time."""
    return blueprint(resolve(SMALL.get(name, name), overrides=overrides, complete=False).experiment, platform)


@functools.cache
def forecast(name, topology, *overrides):
    where = parse(topology)
    return Forecast(drawn(name, where.device.platform, *overrides), where)


@pytest.fixture(scope="session")
def draw():
    return drawn


@pytest.fixture(scope="session")
def forecast_of():
    return forecast
