"""Checks an accelerator: each model family trained a few steps in bfloat16 beside the CPU in float32, and its speed.

    python scripts/device_check.py [--steps 8] [--output FILE.json]

Needs jax, flax, optax and numpy only. Two tables and, with --output, the same figures as JSON:

agreement  losses of a small model on the same random batches, device in bfloat16, device in float32, CPU in float32
speed      training steps of ViT-S/16 and ViT-B/16 at 224² in bfloat16: images/s, and MFU against the device's peak,
           counted as model FLOPs (forward and backward, no recomputation) per second over the peak in bfloat16

Exit code 1 when a loss isn't finite, a bfloat16 loss lies more than 2 % from the CPU's, or a float32 one more than
0.5 % (accelerators round float32 products on their own terms).
"""

import argparse
import json
import sys
import time
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from vitzoo.models.vit import Config, ViT
from vitzoo.nn import state as modules
from vitzoo.nn.execution import Execution
from vitzoo.objectives.classification import Classification
from vitzoo.optim.adamw import AdamW
from vitzoo.optim.build import build
from vitzoo.optim.schedules import Constant
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.sharding import put
from vitzoo.planning.devices import peak_flops
from vitzoo.planning.flops import count
from vitzoo.steps import state as states
from vitzoo.steps.compile import compile_train_step
from vitzoo.steps.train import make_train_step

FAMILIES = {"vit": Config.from_variant("Ti/4", width=64, depth=4, num_heads=4, mlp_dim=256, image_size=32)}
CLASSES = 10


def normalised(batch: Any, key: Any) -> dict[str, Any]:
    """Pixels 0..255 as -1..1: what a run's preprocessing does, without its augmentation."""
    return {**batch, "image": batch["image"].astype("float32") / 127.5 - 1}


def batches(config: Config, size: int, number: int) -> list[dict[str, Any]]:
    """Random images, each class a shade brighter than the one before, so that there is something to learn."""
    drawn = np.random.default_rng(0)
    made = []
    for _ in range(number):
        label = drawn.integers(0, CLASSES, size).astype(np.int32)
        noise = drawn.integers(0, 128, (size, *config.image_shape[:2], 3))
        image = (noise + 12 * label[:, None, None, None]).astype(np.uint8)
        made.append({"image": image, "label": label, "weight": np.ones(size, np.float32)})
    return made


class Training:
    """A model, its optimizer and its compiled step on some devices."""

    def __init__(self, config: Any, devices: list[jax.Device], dtype: str, remat: str = "none"):
        execution = Execution(dtype=dtype, remat=remat)
        make = lambda rngs: ViT(config, rngs=rngs, execution=execution)  # noqa: E731
        self.mesh = make_mesh("auto", devices)
        graph, shapes = modules.abstract(make)
        schedule = Constant().make(1000, 1, 1, 1e-3)
        chain = build(AdamW(weight_decay=0.05, grad_clip=1.0), schedule, shapes)
        self.shapes = states.abstract(shapes, chain)
        places = states.shardings(self.shapes, ViT.SHARDING_RULES, self.mesh)
        self.step = make_train_step(
            graph,
            Classification().bind(SimpleNamespace(multi_label=False, class_counts=None), config.num_classes),
            chain,
            schedule,
            prepare=normalised,
        )
        self.compiled = compile_train_step(self.step, self.mesh, places, seed=0)
        self.state = states.create(modules.initialise(make, 0, places["params"]), chain, shardings=places)

    def __call__(self, batch: dict[str, np.ndarray]) -> jax.Array:
        self.state, scalars = self.compiled(self.state, put(batch, self.mesh))
        return scalars["loss"]


def agreement(steps: int) -> tuple[list[dict[str, Any]], bool]:
    """Losses of each family on the device beside the CPU's, and whether all agree."""
    rows, good = [], True
    for family, config in FAMILIES.items():
        config = Config(**{**vars(config), "num_classes": CLASSES})
        data = batches(config, 64, steps)
        runs = {
            "device bfloat16": Training(config, jax.devices(), "bfloat16"),
            "device float32": Training(config, jax.devices(), "float32"),
            "cpu float32": Training(config, jax.devices("cpu")[:1], "float32"),
        }
        losses = {name: [float(run(batch)) for batch in data] for name, run in runs.items()}
        gaps = {
            name: max(abs(a / b - 1) for a, b in zip(values, losses["cpu float32"], strict=True))
            for name, values in losses.items()
        }
        finite = all(np.isfinite(values).all() for values in losses.values())
        good &= finite and gaps["device bfloat16"] < 0.02 and gaps["device float32"] < 0.005
        rows.append({"family": family, "losses": losses, "largest_relative_gap": gaps})
    return rows, good


def speed(variant: str, batch_size: int, steps: int = 20) -> dict[str, Any]:
    """Images/s and MFU of training steps, after two that warm up."""
    config = Config.from_variant(variant, image_size=224, num_classes=1000)
    run = Training(config, jax.devices()[:1], "bfloat16")
    batch = put(batches(config, batch_size, 1)[0], run.mesh)
    flops = count(run.step, run.shapes, jax.eval_shape(lambda: batch), 0)
    for _ in range(2):
        run.state, scalars = run.compiled(run.state, batch)
    jax.block_until_ready(scalars)
    start = time.perf_counter()
    for _ in range(steps):
        run.state, scalars = run.compiled(run.state, batch)
    jax.block_until_ready(scalars)
    seconds = (time.perf_counter() - start) / steps
    peak = peak_flops(jax.devices()[0].device_kind)
    used = None if peak is None else flops / seconds / peak
    return {"variant": variant, "batch_size": batch_size, "images_per_second": batch_size / seconds, "mfu": used}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--output")
    parser.add_argument("--batch-sizes", default="S/16:256,B/16:128", help="VARIANT:BATCH,... for the speed table")
    arguments = parser.parse_args()
    print(jax.__version__, jax.devices())
    compared, good = agreement(arguments.steps)
    for row in compared:
        print(row["family"], "largest relative gap to the CPU's losses:", row["largest_relative_gap"])
        for name, values in row["losses"].items():
            print(f"  {name:16}", " ".join(f"{value:.5f}" for value in values))
    timed = []
    for pair in filter(None, arguments.batch_sizes.split(",")):
        variant, size = pair.split(":")
        timed.append(speed(variant, int(size)))
        print(timed[-1], flush=True)
    if arguments.output:
        with open(arguments.output, "w") as file:
            json.dump({"jax": jax.__version__, "agreement": compared, "speed": timed}, file, indent=1)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
