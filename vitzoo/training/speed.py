"""How fast a run is, and what fraction of the hardware's peak it uses."""

from collections.abc import Callable
from typing import Any, TextIO

from vitzoo.nn.state import abstract, merge
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

    def forward(params: Any, *arguments: Any) -> Any:
        return merge(abstract(task.build)[0], params)(*arguments)

    return 3 * count_flops(forward, task.state["params"], *task.feed.arguments(task.model_config))
