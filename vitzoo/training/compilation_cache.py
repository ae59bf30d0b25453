"""Compiled steps are kept in the user's cache folder, so that the next start, or a resumed run, compiles nothing.

Measured on a CPU: the step that was read back gives the same bits as the one just compiled. A folder of the user's own
(`JAX_COMPILATION_CACHE_DIR`) is respected, and `JAX_ENABLE_COMPILATION_CACHE=false` turns it off. An entry that a kill
cut short is compiled anew, with a warning of JAX. The folder may be deleted at any time.
"""

import hashlib
import os
import platform
from pathlib import Path

import jax
import jaxlib

from vitzoo.paths import home


def use_compilation_cache() -> None:
    """Point JAX to the cache, unless it has one already, the user has no home folder, or the folder can't be made."""
    if getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    user, shared = home(), os.environ.get("XDG_CACHE_HOME")
    if user is None and not shared:
        return
    root = Path(shared) if shared else Path(user or "") / ".cache"
    folder = root / "vitzoo" / "compiled" / f"jaxlib-{jaxlib.__version__}-{_processor()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))


def _processor() -> str:
    """A name for this kind of processor: code compiled for one may use instructions that another lacks."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.platform(), platform.processor()]
    kind = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))] or lines
    return hashlib.sha256("\n".join(sorted(set(kind))).encode()).hexdigest()[:12]
