"""SimCLR (https://arxiv.org/abs/2002.05709) of one's own: two crops of each image, told from those of all others."""

import dataclasses

import jax
import jax.numpy as jnp
from dino import Projector, crops
from flax import nnx


class Encoder(Projector):
    """An image to a direction, and the temperature of all."""

    def __init__(self, config, *, rngs, execution):
        super().__init__(config, rngs=rngs, execution=execution)
        self.log_scale = nnx.Param(jnp.log(10.0))

    def __call__(self, image, train=False, key=None):
        y = super().__call__(image, train=train)
        return y / jnp.linalg.norm(y, axis=-1, keepdims=True)


@dataclasses.dataclass(frozen=True)
class Contrast:
    term_weights = {"contrast": 1.0}

    def bind(self, info, model_config):
        return self

    def counts(self, batch):
        return {"contrast": 2 * (batch["example_weight"] > 0).sum()}

    def embeddings(self, model, batch, key=None, *, train=True):
        left, right = crops(batch["image"], batch["key"], 2, 6)
        return {"left": model(left, train=train), "right": model(right, train=train)}

    def sums_of(self, embeddings, params, batch, *, memory=None, step=0):
        real = batch["example_weight"] > 0  # what only fills up a batch is nobody's neighbour
        rows, there = jnp.concatenate([embeddings["left"], embeddings["right"]]), jnp.concatenate([real, real])
        scores = jnp.exp(params["log_scale"]) * rows @ rows.T
        scores = jnp.where(there[None] & ~jnp.eye(len(rows), dtype=bool), scores, -jnp.inf)
        partner = jnp.roll(jnp.arange(len(rows)), len(real))
        losses = -jnp.take_along_axis(jax.nn.log_softmax(scores), partner[:, None], 1)[:, 0]
        found = scores.argmax(1) == partner
        count = there.sum().astype("float32")
        loss = jnp.where(there, losses, 0).sum()
        return {"contrast": loss}, {"accuracy": (jnp.where(there, found, 0).sum().astype("float32"), count)}, {}


def get_config():
    import vitzoo.config

    config = vitzoo.config.default()
    config.total_steps, config.data = 24, dict(name="cnn:bars", batch_size=16)
    config.model = dict(name="simclr:Encoder", num_classes=8)
    config.objective = dict(name="simclr:Contrast")
    config.optimizer = dict(name="sgd", learning_rate=0.1)
    config.checkpoint = dict(every_steps=12, keep=4)
    config.evaluate = dict(test=dict(name="objective", split="test", batch_size=8))
    return config
