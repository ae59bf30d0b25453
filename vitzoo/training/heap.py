"""Keeps freed memory mapped while training on a CPU.

XLA takes a step's temporary buffer from malloc in every execution, and glibc maps and unmaps it each time: the kernel
then clears every page anew, up to a fifth of a step's CPU time.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # from <malloc.h>


def keep_heap() -> bool:
    """Tell glibc to keep what is freed; True where it does. To be called before JAX computes anything.

    A process holds its peak of memory from then on, which a step reaches in any case.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    # one arena: each has a heap of its own, and a buffer freed in one would be mapped again in another
    return bool(
        libc.mallopt(_M_ARENA_MAX, 1) and libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    )
