import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from vitzoo.parallel import mesh as meshes
from vitzoo.training.compilation_cache import use_compilation_cache


@pytest.fixture(autouse=True, scope="session")
def one_device(home_folders):
    """The trainer's tests see one of the eight simulated devices: less to compile; meshes have tests of their own."""
    use_compilation_cache()
    compilation_cache.reset_cache()  # whatever ran before in this process, from here on steps are kept
    patch = pytest.MonkeyPatch()
    patch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:1])
    yield
    patch.undo()
