"""A tiny model and everything around it, for tests of the steps."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import jax
import numpy as np
from flax import nnx

from vitzoo.models.vit import Config, ViT
from vitzoo.nn import mlp, norms
from vitzoo.nn import state as modules
from vitzoo.nn.dense import Dense
from vitzoo.nn.execution import Execution
from vitzoo.nn.stochastic import fold
from vitzoo.objectives.classification import Classification
from vitzoo.optim.build import build
from vitzoo.optim.optimizers import AdamW
from vitzoo.optim.schedules import Cosine
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.sharding import put, replicated
from vitzoo.steps import state as states
from vitzoo.steps.compile import jit_train_step
from vitzoo.steps.train import make_train_step

CLASSES = 10
PLAIN = Execution(custom_gradient=False)


class Net(nnx.Module):
    """Two stacked MLPs on the pixels: all that a step meets of a model, and compiled sooner than a ViT."""

    SHARDING_RULES: ClassVar = (
        (r"embedding/kernel", (None, "embed")),
        (r"head/kernel", ("embed", None)),
        (r".*/bias", ()),
        *mlp.RULES,
        *norms.RULES,
    )

    def __init__(self, pixels: int, dropout: float, *, rngs: nnx.Rngs):
        self.embedding = Dense(pixels, 32, rngs=rngs, execution=PLAIN)
        make = lambda rngs: mlp.MLP(32, 64, dropout=dropout, hidden_dropout=dropout, rngs=rngs, execution=PLAIN)  # noqa: E731
        self.blocks = modules.stacked(make, 2, rngs)
        self.head = Dense(32, CLASSES, kernel_init=jax.nn.initializers.zeros, rngs=rngs, execution=PLAIN)

    def __call__(self, images, *, train=False, key=None):
        x = self.embedding(images.reshape(len(images), -1))
        graph, params = modules.split(self.blocks)
        for layer in range(2):
            block = modules.merge(graph, jax.tree.map(lambda leaf, layer=layer: leaf[layer], params))
            x = x + block(x, fold(key, layer) if train else None)
        return self.head(x)


@functools.cache
def net(size: int = 8, dropout: float = 0.0) -> Callable:
    """Makes the small model from its random keys."""
    return lambda rngs: Net(size * size * 3, dropout, rngs=rngs)


@functools.cache
def vit(size: int = 16, **changes: Any) -> Callable:
    """Makes a tiny ViT from its random keys."""
    sizes = {"patch_size": 4, "width": 32, "depth": 2, "mlp_dim": 64, "num_heads": 2, "registers": 1}
    config = Config(**{**sizes, **changes}, num_classes=CLASSES, image_size=size, channels=3)
    return lambda rngs: ViT(config, rngs=rngs)


@functools.cache
def initial(model: Callable, seed: int) -> Any:
    """A model's first parameters, on the host."""
    return jax.device_get(modules.initialise(model, seed))


@dataclasses.dataclass
class Info:
    """Of the data, as an objective sees it."""

    multi_label: bool = False
    class_counts: None = None


def prepare(batch, key):
    """Pixels to -1..1, and what a test adds to spoil them."""
    image = batch["image"].astype("float32") / 127.5 - 1
    return {**batch, "image": image + batch["poison"][:, None, None, None]}


ADAMW, SMOOTHED = AdamW(weight_decay=0.1, grad_clip=1.0), Classification(label_smoothing=0.1)


@dataclasses.dataclass
class Run:
    """One way of training a tiny model."""

    mesh_spec: str = "auto"
    device_count: int = 1
    model: Callable = dataclasses.field(default_factory=net)
    optimizer: Any = ADAMW
    schedule: Callable | None = None
    objective: Any = SMOOTHED
    prepare: Callable = prepare
    seed: int = 0
    settings: dict = dataclasses.field(default_factory=dict)
    compiled: Any = None

    def __post_init__(self):
        self.mesh = make_mesh(self.mesh_spec, jax.devices()[: self.device_count])
        self.graph, shapes = modules.abstract(self.model)
        rate = self.schedule or Cosine(warmup_steps=5).make(40, 16, 160, 3e-3)
        self.tx = build(self.optimizer, rate, shapes)
        ema = self.settings.get("ema", 0.0)
        self.abstract = states.abstract(shapes, self.tx, ema)
        rules = (ViT if "registers" in shapes else Net).SHARDING_RULES
        self.shardings = states.shardings(self.abstract, rules, self.mesh)
        self.low_bits = jax.device_put(np.uint32(self.seed), replicated(self.mesh))
        objective = self.objective.bind(Info(), SimpleNamespace(num_classes=CLASSES))
        self.pure = make_train_step(self.graph, objective, self.tx, rate, prepare=self.prepare, **self.settings)

    @functools.cached_property
    def state(self):
        """Where the run is; at first, before its first batch."""
        params = jax.device_put(initial(self.model, self.seed), self.shardings["params"])
        return states.create(params, self.tx, self.settings.get("ema", 0.0), self.shardings)

    def again(self) -> "Run":
        """Another run from the same state, sharing what is compiled."""
        run = copy.copy(self)
        run.state = jax.device_put(jax.device_get(self.state), self.shardings)
        return run

    def lower(self, batch):
        """The step, lowered from shapes alone."""
        target = states.with_shardings(self.abstract, self.shardings)
        return jit_train_step(self.pure, self.mesh, self.shardings).lower(
            target, put(batch, self.mesh), np.uint32(self.seed)
        )

    def compile(self, batch):
        """The step of `lower`, compiled with less effort: these tests compile more than they compute."""
        return self.lower(batch).compile({"xla_backend_optimization_level": 0})

    def train(self, batches):
        """The metrics of a step for each batch, all of one shape."""
        seen = []
        for batch in batches:
            self.compiled = self.compiled or self.compile(batch)
            self.state, metrics = self.compiled(self.state, put(batch, self.mesh), self.low_bits)
            seen.append(jax.device_get(metrics))
        return seen


def batches(count, batch_size=16, size=8, start=0):
    """Images with something to learn: the class sets the brightness."""
    for index in range(start, start + count):
        draw = np.random.default_rng(index)
        label = draw.integers(0, CLASSES, batch_size).astype(np.int32)
        image = draw.integers(0, 60, (batch_size, size, size, 3)) + 18 * label[:, None, None, None]
        weight = np.ones(batch_size, np.float32)
        yield {
            "image": image.astype(np.uint8),
            "label": label,
            "example_weight": weight,
            "poison": 0 * weight,
            "id": np.arange(batch_size),
        }
