"""How the C library treats the memory that programs on the CPU free."""

import ctypes
import importlib.util
import os

# mallopt(3)
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX, ARENA_MAX = -1, -2, -4, -8
GROWTH = 2**28  # bytes by which the heap grows
ACCELERATORS = ("libtpu", "jax_plugins")  # the second is where plugins for GPUs and others register


def keep_freed_memory() -> bool:
    """Lets the process keep what it frees, in one heap, for the next step to use.

    XLA allocates the temporaries of a step on the CPU anew each time. glibc returns large blocks to the kernel as soon
    as they are free, and the kernel clears every page of the next ones: about a tenth of the time of
    `t5/translate`, whose logits are large, and little of models with small ones (`scripts/bench_allocator.py`). To be
    called before threads begin, which would have heaps of their own.

    Returns:
        Whether it is so now. Not with another C library, where MALLOC_... in the environment says what is wanted, or
        where a plugin for an accelerator is installed: there the step's memory isn't the host's, and threads that
        decode images are better off with heaps of their own.
    """
    if any(name.startswith("MALLOC_") for name in os.environ) or _may_accelerate():
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {ARENA_MAX: 1, MMAP_MAX: 0, TRIM_THRESHOLD: -1, TOP_PAD: GROWTH}
    return all(mallopt(name, value) == 1 for name, value in settings.items())


def _may_accelerate() -> bool:
    """Whether JAX may find anything but the CPU."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    return any(importlib.util.find_spec(name) for name in ACCELERATORS)
