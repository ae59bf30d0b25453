"""How fast a run is, what makes it faster, and a trace of where its time goes (`config.profile=START:STOP`).

Freed memory is kept mapped while a small model trains on a CPU: XLA takes a step's temporary buffer from malloc in
every execution, and glibc maps and unmaps it each time: the kernel then clears every page anew. Measured with Linux and
glibc: for the quickstart (13,000 page faults a step, 240 afterwards) a step takes a quarter less CPU time and the peak
grows from 537 to 585 MB; for a ViT-Ti/16 at batch 32 there is no gain and the peak grows by half, so large steps are
left alone.

Compiled steps are kept in the user's cache folder, so that the next start, or a resumed run, compiles nothing. Measured
on a CPU: the step that was read back gives the same bits as the one just compiled. A folder of the user's own
(`JAX_COMPILATION_CACHE_DIR`) is respected, and `JAX_ENABLE_COMPILATION_CACHE=false` turns it off. An entry that a kill
cut short is compiled anew, with a warning of JAX. The folder may be deleted at any time.
"""

import ctypes
import hashlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import jax
import jaxlib

from vitzoo.nn.state import Params, merge
from vitzoo.paths import home
from vitzoo.planning.jaxprs import count_flops
from vitzoo.planning.topology import peak_flops
from vitzoo.registry import PARTS
from vitzoo.steps.compile import batch_shapes
from vitzoo.training.progress import Progress
from vitzoo.training.setup import Task


def progress_of(task: Task, step: int, out: TextIO) -> Progress:
    """The progress display of a training, with its utilisation on an accelerator."""
    return Progress(step, task.total_steps, task.resolved.experiment.data.batch_size, out, utilisation(task, out))


def utilisation(task: Task, out: TextIO) -> Callable[[float], float] | None:
    """Examples a second to model FLOP utilisation (Chowdhery et al. 2022, appendix B); None on CPUs or without a peak.

    A product and a sum are two FLOPs; what rematerialisation computes again does not count.
    """
    device, devices = task.mesh.devices.flat[0], task.mesh.devices.size
    if device.platform == "cpu":
        return None
    peak = peak_flops(device.device_kind)
    if peak is None:
        print(f"MFU     not shown: no peak is known for {device.device_kind}", file=out)
        return None
    flops = flops_per_example(task)
    print(
        f"MFU     examples/s × {flops:.4g} FLOPs an example / ({devices} × {peak / 1e12:.4g} TFLOP/s, bfloat16 peak)",
        file=out,
    )
    return lambda rate: rate * flops / (devices * peak)


def flops_per_example(task: Task) -> float:
    """FLOPs of one example's forward pass by its trace, times three: the backward pass has two products for each.

    How an objective of a user's own passes examples through the model only its step shows, so that is counted.
    """
    if task.resolved.values["objective"]["name"] not in PARTS["objective"]:
        size = task.resolved.experiment.data.batch_size
        return count_flops(task.step, task.state, batch_shapes(task.stream.rows.padding(), size), 0) / size

    def forward(params: Params, *arguments: jax.Array) -> Any:
        return merge(task.assembly.abstract[0], params)(*arguments)

    return 3 * count_flops(forward, task.state["params"], *task.inputs.arguments(task.model_config))


SMALL_STEP = 2e10  # FLOPs of a micro-batch, which comes to some 50 to 200 MB of temporary memory
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # from <malloc.h>


def keep_heap(task: Task) -> bool:
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


class Profiler:
    """Traces the steps START to STOP − 1 into `WORKDIR/profile`; does nothing for an empty span."""

    def __init__(self, span: str, workdir: Path):
        self._start, self._stop = map(int, span.split(":")) if span else (-1, -1)
        self._folder, self._running = workdir / "profile", False

    def before(self, step: int) -> None:
        """To be called before each step."""
        if step == self._start:
            jax.profiler.start_trace(self._folder)
            self._running = True
        elif step == self._stop:
            self.close()

    def close(self) -> None:
        if self._running:
            self._running = False
            jax.profiler.stop_trace()
