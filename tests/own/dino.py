"""DINO (https://arxiv.org/abs/2104.14294) of one's own: a moving teacher, a centre, crops cut on the device."""

import dataclasses

import jax
import jax.numpy as jnp
from cnn import Config
from flax import nnx

import vitzoo.config
from vitzoo.models.vit import ViT, ViTConfig
from vitzoo.nn.state import merge, split
from vitzoo.objectives.base import Sum
from vitzoo.schema import setting


class Projector(nnx.Module):
    """A ViT, which takes crops of any size that its patches divide, and a score for each prototype."""

    Config = Config

    def __init__(self, config, *, rngs, execution):
        sizes = dict(width=config.width, depth=1, mlp_dim=32, num_heads=2, patch_size=2, pooling="gap", num_classes=0)
        vit = ViTConfig(image_size=config.image_size, channels=config.channels, **sizes)
        self.encoder = ViT(vit, rngs=rngs, execution=execution)
        self.head = nnx.Linear(config.width, config.num_classes, use_bias=False, rngs=rngs)

    def __call__(self, image, train=False, key=None):
        return self.head(self.encoder(image))


def crops(image, keys, count, size):
    """[rows, H, W, C] to [count, rows, size, size, C]: places drawn from each row's own key."""

    def one(picture, key):
        corner = jax.random.randint(key, (2,), 0, picture.shape[0] - size + 1)
        return jax.lax.dynamic_slice(picture, (*corner, 0), (size, size, picture.shape[2]))

    drawn = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, size), count))(keys)  # [rows, count]
    return jax.vmap(jax.vmap(one), (None, 1))(image, drawn)


@dataclasses.dataclass(frozen=True)
class SelfDistillation:
    momentum: float = setting(0.9, "of the teacher", minimum=0.0, below=1.0)
    term_weights = {"crops": 1.0}

    def bind(self, info, model_config):
        return self

    def init(self, params):
        return {"teacher": params, "centre": jnp.zeros(params["head"]["kernel"].shape[1])}

    def counts(self, batch):
        return {"crops": batch["example_weight"].sum()}

    def sums(self, model, batch, key=None, *, train, memory, step):
        large, small = crops(batch["image"], batch["key"], 2, 6), crops(batch["image"], batch["key"], 2, 4)
        teacher = merge(split(model)[0], memory["teacher"])
        said = jax.lax.stop_gradient(jnp.stack([teacher(crop) for crop in large]))
        wanted = jax.nn.softmax((said - memory["centre"]) / 0.04)
        found = [jax.nn.log_softmax(model(crop, train=train) / 0.1) for crop in (*large, *small)]
        losses = -sum((wanted[i] * found[j]).sum(-1) for i in range(2) for j in range(4) if i != j) / 6
        weight = batch["example_weight"]
        notes = {"scores": Sum((weight[:, None] * said.mean(0)).sum(0)), "rows": Sum(weight.sum())}
        return {"crops": (weight * losses).sum()}, {}, notes

    def update(self, memory, params, notes, step):
        teacher = jax.tree.map(lambda t, p: self.momentum * t + (1 - self.momentum) * p, memory["teacher"], params)
        return {"teacher": teacher, "centre": 0.9 * memory["centre"] + 0.1 * notes["scores"] / notes["rows"]}


def get_config():
    config = vitzoo.config.default()
    config.total_steps, config.data = 24, dict(name="cnn:bars", batch_size=16)
    config.model, config.objective = dict(name="dino:Projector", num_classes=8), dict(name="dino:SelfDistillation")
    config.optimizer = dict(name="sgd", learning_rate=0.1)
    config.checkpoint = dict(every_steps=12, keep=4, keep_best="test/loss")
    config.evaluate = dict(test=dict(name="objective", split="test", batch_size=7, every_steps=12))
    return config
