"""The process that `planning.ahead` starts: reads what to compile from its input, writes what it takes."""

import json
import sys
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils, topologies
from jax.sharding import AxisType, Mesh

from vitzoo.config import resolve
from vitzoo.config.experiment import ModelChoice
from vitzoo.parallel.mesh import AXES
from vitzoo.planning.blueprint import blueprint
from vitzoo.planning.estimate import Setting
from vitzoo.steps import state as states
from vitzoo.steps.compile import jit_train_step


def main() -> None:
    """Compiles and prints one line of JSON."""
    asked: dict[str, Any] = json.load(sys.stdin)
    setting = Setting(**{**asked["setting"], "mesh": tuple(asked["setting"]["mesh"])})
    resolved = resolve(asked["values"])
    plan = blueprint(resolved.experiment, "tpu", ModelChoice(**asked["choice"]), asked["examples"])
    mesh = _mesh(asked["topology"], setting.mesh)
    places = states.shardings(plan.state, plan.rules, mesh)
    step = jit_train_step(plan.step(setting.remat, setting.accumulate), mesh, places)
    batch = plan.batch(resolved.experiment.data.batch_size)
    seed = jax.ShapeDtypeStruct((), np.uint32)
    memory = step.lower(states.with_shardings(plan.state, places), batch, seed).compile().memory_analysis()
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
