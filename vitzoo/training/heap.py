"""Keeps freed memory mapped while a small model trains on a CPU.

XLA takes a step's temporary buffer from malloc in every execution, and glibc maps and unmaps it each time: the kernel
then clears every page anew. Measured with Linux and glibc: for the quickstart (13,000 page faults a step, 240
afterwards) a step takes a quarter less CPU time and the peak grows from 537 to 585 MB; for a ViT-Ti/16 at batch 32
there is no gain and the peak grows by half, so large steps are left alone.
"""

import ctypes
import sys
from typing import Any

from vitzoo.training.speed import flops_per_example

SMALL_STEP = 2e10  # FLOPs of a micro-batch, which comes to some 50 to 200 MB of temporary memory
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # from <malloc.h>


def keep_heap(task: Any) -> bool:
    """Tell glibc to keep what is freed, if the task's step is small and runs on a CPU; True where that was done.

    To be called before the first array is made.
    """
    experiment = task.resolved.experiment
    if task.mesh.devices.flat[0].platform != "cpu" or not sys.platform.startswith("linux"):
        return False
    if flops_per_example(task) * experiment.data.batch_size / experiment.accumulate > SMALL_STEP:
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    # one arena: each has a heap of its own, and what was freed in one would be mapped anew for another
    settings = {_M_ARENA_MAX: 1, _M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1}
    return all(libc.mallopt(name, value) for name, value in settings.items())
