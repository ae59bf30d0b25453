"""Freed memory is kept for the next step where the steps run on the CPU."""

import ctypes
import subprocess
import sys

import pytest

from vitzoo.cli import entry

GLIBC = hasattr(ctypes.CDLL(None), "gnu_get_libc_version")
LARGE = """
import resource
from vitzoo.cli.entry import keep_freed_memory
kept = keep_freed_memory()
import numpy as np
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2**23)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(kept, faults())
"""


@pytest.fixture
def asked(monkeypatch):
    """What the C library is asked for, which this process then doesn't do."""
    found = {}

    class Library:
        @staticmethod
        def mallopt(name, value):
            found[name] = value
            return 1

    monkeypatch.setattr(entry.ctypes, "CDLL", lambda name: Library)
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return found


def test_one_heap_keeps_all_that_is_freed(asked):
    assert entry.keep_freed_memory()
    assert asked == {
        entry.ARENA_MAX: 1,
        entry.MMAP_MAX: 0,
        entry.TRIM_THRESHOLD: -1,
        entry.TOP_PAD: 2**28,
    }


def test_what_the_user_set_is_left_alone(asked, monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert not entry.keep_freed_memory()
    assert not asked


def test_beside_an_accelerator_nothing_changes(asked, monkeypatch):
    monkeypatch.setattr(entry.importlib.util, "find_spec", lambda name: name == "libtpu" or None)
    assert entry.keep_freed_memory()  # JAX_PLATFORMS=cpu
    asked.clear()
    monkeypatch.delenv("JAX_PLATFORMS")
    assert not entry.keep_freed_memory()
    assert not asked


def test_another_c_library_is_left_alone(asked, monkeypatch):
    monkeypatch.setattr(entry.ctypes, "CDLL", lambda name: object())
    assert not entry.keep_freed_memory()


@pytest.mark.parametrize("asked_for", [{}, {"MALLOC_PERTURB_": "0"}], ids=["kept", "default"])
def test_the_kernel_clears_no_page_again_for_a_large_array_that_is_kept(asked_for):
    own = {"PATH": "", "JAX_PLATFORMS": "cpu"} | asked_for
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True, env=own)
    kept, faults = done.stdout.split()
    assert (kept == "True") is (GLIBC and not asked_for)
    # of 20 arrays of 64 MiB, each of at least 32 pages of 2 MiB
    assert (int(faults) < 100) is (kept == "True")
