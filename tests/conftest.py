"""Every test runs on the CPU, seen by JAX as eight devices, away from the user's folders and from any network."""

import atexit
import os
import shutil
import signal
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
# most of what is compiled here runs once, and optimising it takes longer than running it
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    + " --xla_llvm_disable_expensive_passes=true"
)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a script's background; commands inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
# many tests compile the same small steps: whichever process is first compiles them for all
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # a run's other processes inherit it
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="vitzoo-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import pytest

SLOW_ONLY = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Notes the files of which the usual command would run nothing, before it leaves the slow tests out."""
    quick = {item.path for item in items if not any(item.get_closest_marker(name) for name in ("slow", "gate"))}
    whole = {item.path for item in items} if not any("::" in argument for argument in config.args) else set()
    config.stash[SLOW_ONLY] = sorted(str(path.relative_to(config.rootpath)) for path in whole - quick)


@pytest.fixture
def slow_only_files(pytestconfig):
    """Those of the files in this session of which every test is slow."""
    return pytestconfig.stash[SLOW_ONLY]


@pytest.fixture(scope="session", autouse=True)
def home_folders(tmp_path_factory):
    """Datasets and caches that a test prepares go to a folder of this session."""
    root = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("TFDS_DATA_DIR", str(root / "tensorflow_datasets"))
    patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    yield root
    patch.undo()
