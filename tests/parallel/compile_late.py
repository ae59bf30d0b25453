"""Sums over two processes, the second of which takes long to compile; started by `by_hand.sh`."""

import argparse
import time

import jax
import numpy as np

from vitzoo.parallel import processes
from vitzoo.parallel.cluster import Cluster, end, joined

LATE = 40  # seconds; CPUs' processes wait 30 for each other


def total() -> float:
    from vitzoo.parallel.mesh import make_mesh
    from vitzoo.parallel.sharding import put, replicated
    from vitzoo.steps.compile import compiled_together

    mesh = make_mesh("data:2", jax.devices())
    summed = compiled_together(jax.jit(lambda rows: rows["x"].sum(), out_shardings=replicated(mesh)))
    rows = put({"x": np.full(1, 1.0 + processes.index(), np.float32)}, mesh)
    compile_now = jax.stages.Lowered.compile

    def compile_late(self, *arguments, **settings):
        time.sleep(0 if processes.is_first() else LATE)
        return compile_now(self, *arguments, **settings)

    jax.stages.Lowered.compile = compile_late
    return float(summed(rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--coordinator")
    parser.add_argument("--num-processes", type=int)
    parser.add_argument("--process-id", type=int)
    given = parser.parse_args()
    with joined(Cluster(given.coordinator, given.num_processes, given.process_id), preemption=False):
        print(f"sum {total():g}")
    end(0)


if __name__ == "__main__":
    main()
