"""A tiny ViT and everything around it, for tests of the steps."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from vitzoo.models.vit import Config, ViT
from vitzoo.nn import state as modules
from vitzoo.objectives.classification import Classification
from vitzoo.optim.adamw import AdamW
from vitzoo.optim.build import build
from vitzoo.optim.schedules import Cosine
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.sharding import put
from vitzoo.steps import state as states
from vitzoo.steps.compile import compile_train_step, jit_train_step
from vitzoo.steps.train import make_train_step

CLASSES = 10


@dataclasses.dataclass
class Info:
    multi_label: bool = False
    class_counts: None = None


def prepare(batch, key):
    """Pixels to -1..1."""
    return {**batch, "image": batch["image"].astype("float32") / 127.5 - 1}


@dataclasses.dataclass
class Run:
    """One way of training the same tiny model."""

    mesh_spec: str = "auto"
    device_count: int = 1
    optimizer: Any = AdamW(weight_decay=0.1, grad_clip=1.0)
    schedule: Callable | None = None
    objective: Any = Classification(label_smoothing=0.1)
    model: dict = dataclasses.field(default_factory=dict)
    step_settings: dict = dataclasses.field(default_factory=dict)
    seed: int = 0
    prepare: Callable = prepare
    size: int = 16

    def __post_init__(self):
        sizes = {"patch_size": 4, "width": 32, "depth": 2, "mlp_dim": 64, "num_heads": 2, "registers": 1}
        config = Config(**{**sizes, **self.model}, num_classes=CLASSES, image_size=self.size, channels=3)
        self.mesh = make_mesh(self.mesh_spec, jax.devices()[: self.device_count])
        self.graph, self.shapes = modules.abstract(lambda rngs: ViT(config, rngs=rngs))
        rate = self.schedule or Cosine(warmup_steps=5).make(40, 16, 160, 3e-3)
        self.tx = build(self.optimizer, rate, self.shapes)
        ema = self.step_settings.get("ema", 0.0)
        self.abstract = states.abstract(self.shapes, self.tx, ema)
        self.shardings = states.shardings(self.abstract, ViT.SHARDING_RULES, self.mesh)
        params = modules.initialise(lambda rngs: ViT(config, rngs=rngs), self.seed, self.shardings["params"])
        self.state = states.create(params, self.tx, ema, self.shardings)
        objective = self.objective.bind(Info(), CLASSES)
        self.pure = make_train_step(self.graph, objective, self.tx, rate, prepare=self.prepare, **self.step_settings)
        self.step = compile_train_step(self.pure, self.mesh, self.shardings, self.seed)

    def lower(self, batch):
        """The step, lowered from shapes alone."""
        target = states.with_shardings(self.abstract, self.shardings)
        return jit_train_step(self.pure, self.mesh, self.shardings).lower(target, batch, np.uint32(self.seed))

    def train(self, batches):
        """The metrics of a step for each batch."""
        seen = []
        for batch in batches:
            self.state, metrics = self.step(self.state, put(batch, self.mesh))
            seen.append(jax.device_get(metrics))
        return seen


def batches(count, batch_size=16, size=16, start=0):
    """Images with something to learn: the class sets the brightness."""
    for index in range(start, start + count):
        draw = np.random.default_rng(index)
        label = draw.integers(0, CLASSES, batch_size).astype(np.int32)
        image = draw.integers(0, 60, (batch_size, size, size, 3)) + 18 * label[:, None, None, None]
        weight = np.ones(batch_size, np.float32)
        yield {"image": image.astype(np.uint8), "label": label, "weight": weight, "id": np.arange(batch_size)}
