"""A checkpoint of one's own to learn from: a student is brought near to what another model says of the same images."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class Hint:
    guide: str = setting("", "checkpoint to learn from", checkpoint=True)

    def bind(self, info, model_config, guide):
        return Distance(guide)


@dataclasses.dataclass(frozen=True)
class Distance:
    guide: Any
    term_weights = {"distance": 1.0}

    def counts(self, batch):
        return {"distance": batch["example_weight"].sum()}

    def sums(self, model, batch, key=None, *, train, memory, step):
        wanted = self.guide.model(memory["guide"])(self.guide.images(batch["image"]), train=False)
        errors = ((model(batch["image"], train=train, key=key) - wanted) ** 2).sum(-1)
        return {"distance": (batch["example_weight"] * jnp.sqrt(1 + errors)).sum()}, {}, {}


def get_config():
    import vitzoo.config

    config = vitzoo.config.default()
    config.total_steps, config.data = 24, dict(name="cnn:bars", batch_size=16)
    config.inputs.image = dict(mean=(100.0,), std=(50.0,))  # other than the guide's
    config.model = dict(name="dino:Projector", num_classes=2)
    config.objective = dict(name="hint:Hint", guide=vitzoo.config.required("CKPT"))
    config.optimizer = dict(name="adamw", learning_rate=0.01)
    config.checkpoint = dict(every_steps=12, keep=4, keep_best="")
    config.evaluate = dict(test=dict(name="objective", split="test", batch_size=7, every_steps=12))
    return config
