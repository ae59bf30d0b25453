import json
import sys
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
from striped import Stripes

from vitzoo.parallel import mesh as meshes
from vitzoo.training import setup
from vitzoo.training.speed import use_compilation_cache

sys.path.append(str(Path(__file__).parents[1] / "weights"))  # where run folders are made
TASKS: dict = {}


@pytest.fixture(autouse=True, scope="module")
def one_device(home_folders):
    """The trainer's tests see one of the eight simulated devices: less to compile; meshes have tests of their own."""
    use_compilation_cache()
    compilation_cache.reset_cache()  # whatever ran before in this process, from here on steps are kept
    patch = pytest.MonkeyPatch()
    patch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:1])
    yield
    patch.undo()


@pytest.fixture(autouse=True, scope="module")
def traced_once(one_device):
    """The same config gives the same task, so that resuming in this process traces nothing anew."""
    prepare = setup.prepare

    def once(resolved, mesh):
        key = json.dumps([resolved.values, resolved.sources, Stripes.shifted], sort_keys=True, default=str)
        if key not in TASKS:
            TASKS[key] = prepare(resolved, mesh)
        return TASKS[key]

    patch = pytest.MonkeyPatch()
    patch.setattr(setup, "prepare", once)
    yield
    patch.undo()
