"""Sums over two processes, the second of which takes long to compile; started by `by_hand.sh`."""

import argparse
import time

import jax
import numpy as np

from vitzoo.cli.arguments import add_process_flags, runs_together
from vitzoo.cli.output import Result
from vitzoo.parallel import processes
from vitzoo.parallel.cluster import end

LATE = 40  # seconds; CPUs' processes wait 30 for each other


@runs_together(preemption=False)
def run(given: argparse.Namespace) -> Result:
    from vitzoo.parallel.mesh import make_mesh
    from vitzoo.parallel.sharding import put, replicated
    from vitzoo.steps.compile import compiled_together

    mesh = make_mesh("data:2", jax.devices())
    total = compiled_together(jax.jit(lambda rows: rows["x"].sum(), out_shardings=replicated(mesh)))
    rows = put({"x": np.full(1, 1.0 + processes.index(), np.float32)}, mesh)
    compile_now = jax.stages.Lowered.compile

    def compile_late(self, *arguments, **settings):
        time.sleep(0 if processes.is_first() else LATE)
        return compile_now(self, *arguments, **settings)

    jax.stages.Lowered.compile = compile_late
    print(f"sum {float(total(rows)):g}")
    return Result({})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_process_flags(parser)
    run(parser.parse_args())
    end(0)
