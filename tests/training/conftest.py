import jax
import pytest

from vitzoo.parallel import mesh as meshes


@pytest.fixture(autouse=True, scope="session")
def one_device():
    """The trainer's tests see one of the eight simulated devices: less to compile; meshes have tests of their own."""
    patch = pytest.MonkeyPatch()
    patch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:1])
    yield
    patch.undo()
