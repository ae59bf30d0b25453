"""Saves a training on one mesh of simulated devices and resumes it on another: all pairs of them.

    python scripts/drills/meshes.py [--count 81] [--kind images|text] [--workdir DIR]

Must hold: the state is the same bit for bit, and the loss of the next step within 1e-6 (relative). `--count` cuts the
list of pairs.
"""

import itertools
import math
import os
import sys
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import common
import jax
import numpy as np

from vitzoo.checkpoints.store import Store
from vitzoo.config import resolve
from vitzoo.nn.paths import flatten
from vitzoo.nn.state import initialise
from vitzoo.parallel import mesh as meshes
from vitzoo.parallel.sharding import put
from vitzoo.steps.state import create
from vitzoo.training import setup

MESHES = (
    "data:1", "data:2", "fsdp:2", "tensor:2", "fsdp:4", "data:2,tensor:2",
    "fsdp:8", "data:2,fsdp:2,tensor:2", "fsdp:4,tensor:2",
)  # fmt: skip
STEPS = 2  # before the checkpoint


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, len(MESHES) ** 2, given, kind="images")
    score = common.Score("pairs of meshes", options.count)
    pairs = list(itertools.product(MESHES, MESHES))[: options.count]
    with common.folder_of(options) as folder:
        runs = {spec: Run(spec, options.kind, folder) for spec in dict.fromkeys(itertools.chain(*pairs))}
        for source, target in pairs:
            state, loss = runs[target].resume(runs[source].folder)
            wrong = [path for path, leaf in runs[source].state.items() if not same(leaf, state[path])]
            wrong += [f"loss {loss} and {runs[source].loss}"] * (
                not math.isclose(loss, runs[source].loss, rel_tol=1e-6)
            )
            score.add(f"{source} → {target}: next loss {loss:.9g}", wrong)
    return score.end()


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal bit for bit."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


class Run:
    """A training on one mesh: some steps, saved, and one more."""

    def __init__(self, spec: str, kind: str, folder: Path):
        count = math.prod(meshes.parse_mesh(spec).values())
        self.mesh = meshes.make_mesh(spec, jax.devices()[:count])
        self.task = setup.prepare(resolve(common.get_config(kind), overrides={"mesh": spec}), self.mesh)
        self.folder = folder / spec.replace(":", "").replace(",", "-")
        params = initialise(self.task.assembly, 0, self.task.shardings["params"])
        state: Any = create(params, self.task.chain, 0.0, self.task.shardings)
        for step in range(STEPS):
            state, _ = self.task.train_step(state, self.batch(step))
        self.state = host(state)
        store = Store(self.folder)
        store.save(STEPS, state, self.task.describe(STEPS), {})
        store.close()
        self.loss = float(self.task.train_step(state, self.batch(STEPS))[1]["loss"])

    def batch(self, step: int) -> dict:
        """The global batch of a step, on the devices."""
        batch = put(next(self.task.stream.iterate(step)), self.mesh)
        self.task.stream.close()  # its threads, which would outlive the drill
        return batch

    def resume(self, folder: Path) -> tuple[dict, float]:
        """The state that another mesh saved, on this one, and the loss of the next step."""
        state, _ = Store(folder).restore(STEPS, self.task.state)
        found = host(state)
        return found, float(self.task.train_step(state, self.batch(STEPS))[1]["loss"])


def host(state: dict) -> dict[str, np.ndarray]:
    """All leaves by path."""
    return {path: np.array(leaf) for path, leaf in flatten(state).items()}


if __name__ == "__main__":
    sys.exit(main())
