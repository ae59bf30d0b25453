"""The real step compiled for TPUs that aren't here, with the compiler of the extra `plan`: what it says of the memory.

It runs in a process of its own, since the compiler's library must be loaded with settings of its own: `compile_step`
starts this file, whose `main` reads what to compile from its input and writes what it takes.
"""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils, topologies
from jax.sharding import AxisType, Mesh

from vitzoo.config import Resolved, resolve
from vitzoo.config.model import ModelChoice
from vitzoo.errors import RunError
from vitzoo.parallel.mesh import AXES
from vitzoo.planning.blueprint import Blueprint, blueprint
from vitzoo.planning.estimate import Setting
from vitzoo.planning.topology import Topology
from vitzoo.steps import state as states
from vitzoo.steps.compile import jit_train_step

LIBRARY = "libtpu"
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",  # no TPU is looked for
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    # only to keep the library quiet
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_ID": "0",
}
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NEEDED = (
    re.compile(r"required for HLO temporaries \(([\d.]+)([KMGT]?)\)"),
    re.compile(r"Used ([\d.]+)([KMGT]?) of [\d.]+[KMGT]? hbm"),
)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the compiler says of a device's memory, bytes.

    Attributes:
        arguments: state and batch.
        temporary: all blocks that it lays out besides; more than ever lies there at one moment.
        peak: what lies there at the fullest moment, arguments included; where it didn't fit, what it says it needs.
        fits: whether it compiled.
    """

    arguments: int
    temporary: int
    peak: int
    fits: bool


def is_available(topology: Topology) -> bool:
    """Whether this topology can be compiled for here."""
    return topology.device.platform == "tpu" and importlib.util.find_spec(LIBRARY) is not None


def compile_step(resolved: Resolved, blueprint: Blueprint, topology: Topology, setting: Setting) -> Compiled:
    """Compiles the step of a setting; takes a minute to a few.

    Raises:
        RunError: the compiler ended otherwise than with a program or for lack of memory.
    """
    size = getattr(blueprint.assembly.config, "image_size", None)  # which a checkpoint may have said
    changes = {**blueprint.choice.changes, **({"image_size": size} if size else {})}
    choice = dataclasses.asdict(dataclasses.replace(blueprint.choice, changes=changes))
    asked: dict[str, Any] = {"values": resolved.values, "choice": choice, "examples": blueprint.examples}
    asked["frozen"] = {name: one.description for name, one in blueprint.frozen.items()}
    asked |= {"topology": str(topology), "setting": dataclasses.asdict(setting)}
    done = subprocess.run(
        [sys.executable, "-m", "vitzoo.planning.tpu_compiler"],
        input=json.dumps(asked, default=str),
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    return read_output(done.stdout, done.stderr, topology)


def read_output(output: str, errors: str, topology: Topology) -> Compiled:
    """What the child said.

    Raises:
        RunError: nothing that can be read.
    """
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            values: dict[str, Any] = json.loads(line)
            return Compiled(**values, fits=True)
    if "RESOURCE_EXHAUSTED" in errors:
        for pattern in _NEEDED:
            if found := pattern.search(errors):
                needed = round(float(found[1]) * _UNITS[found[2]])
                return Compiled(0, needed, needed, False)
    said = [line for line in errors.splitlines() if line.strip()]
    raise RunError(f"the compiler for {topology} ended without a program: {said[-1] if said else 'it said nothing'}")


def main() -> None:
    """Compiles and prints one line of JSON."""
    asked: dict[str, Any] = json.load(sys.stdin)
    setting = Setting(**{**asked["setting"], "mesh": tuple(asked["setting"]["mesh"])})
    resolved = resolve(asked["values"])
    choice = ModelChoice(**asked["choice"])
    plan = blueprint(resolved.experiment, "tpu", choice, asked["examples"], asked["frozen"])
    mesh = _mesh(asked["topology"], setting.mesh)
    places = states.shardings(plan.state, plan.rules, mesh, plan.frozen)
    step = jit_train_step(plan.step(setting.remat, setting.accumulate), mesh, places)
    batch = plan.batch(resolved.experiment.data.batch_size)
    seed = jax.ShapeDtypeStruct((), np.uint32)
    compiled = step.lower(states.with_shardings(plan.state, places), batch, seed).compile()
    memory: Any = compiled.memory_analysis()
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    taken = {"arguments": memory.argument_size_in_bytes, "temporary": memory.temp_size_in_bytes + results}
    taken |= {"peak": memory.peak_memory_in_bytes}
    print(json.dumps(taken), flush=True)


def _mesh(topology: str, shape: tuple[int, ...]) -> Mesh:
    alone = {"chips_per_host_bounds": (1, 1, 1)} if topology.endswith(("1x1", "1x1x1")) else {}
    described = topologies.get_topology_desc(platform="tpu", topology_name=topology, **alone)
    devices = mesh_utils.create_device_mesh(shape, list(described.devices), allow_split_physical_axes=True)
    return Mesh(devices, AXES, axis_types=(AxisType.Auto,) * len(AXES))


if __name__ == "__main__":
    main()
