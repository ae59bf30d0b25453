"""A model of one's own made of vitzoo's parts, trained to look at few places: its loss reads its attention weights."""

import dataclasses
from functools import partial

import jax
from cnn import Config
from flax import nnx

from vitzoo.nn.attention import Attention
from vitzoo.nn.embeddings import PatchEmbedding
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.positions import SinCos2D
from vitzoo.nn.stack import Block, Stack
from vitzoo.schema import setting


class Focused(nnx.Module):
    Config = Config

    def __init__(self, config, *, rngs, execution):
        how, width = {"rngs": rngs, "execution": execution}, config.width
        norm = partial(LayerNorm, width, execution=execution)

        def block(rngs):
            attention = Attention(width, 2, rngs=rngs, execution=execution)
            return Block(width=width, attention=attention, mlp=MLP(width, 4 * width, **how | {"rngs": rngs}), norm=norm)

        self.patches = PatchEmbedding((2, 2), config.channels, width, **how)
        self.positions = SinCos2D((config.image_size[0] // 2, config.image_size[1] // 2), width)
        self.encoder = Stack(2, block, norm=norm(), **how)
        self.head = nnx.Linear(width, config.num_classes, rngs=rngs)

    def __call__(self, image, *, capture=(), train=False, key=None):
        run = self.encoder(self.patches(image) + self.positions(), capture=capture)
        logits = self.head(run.tokens.mean(1))
        return (logits, run.captured) if capture else logits


@dataclasses.dataclass(frozen=True)
class Focus:
    entropy: float = setting(0.1, "weight of the attention's entropy", minimum=0.0)

    @property
    def term_weights(self):
        return {"classes": 1.0, "entropy": self.entropy}

    def bind(self, info, model_config):
        return self

    def counts(self, batch):
        return dict.fromkeys(("classes", "entropy"), batch["example_weight"].sum())

    def sums(self, model, batch, key=None, *, train, **_):
        logits, captured = model(batch["image"], train=train, capture={"attention"})
        classes = -jax.nn.log_softmax(logits)[jax.numpy.arange(len(logits)), batch["label"]]
        entropy = jax.scipy.special.entr(captured["attention"]).sum(-1).mean((0, 2, 3))  # of each image
        weight = batch["example_weight"]
        return {"classes": (weight * classes).sum(), "entropy": (weight * entropy).sum()}, {}, {}


def get_config():
    import vitzoo.config

    config = vitzoo.config.default()
    config.total_steps, config.data = 24, dict(name="cnn:bars", batch_size=16)
    config.model, config.objective = dict(name="focus:Focused"), dict(name="focus:Focus")
    config.optimizer = dict(name="sgd", learning_rate=0.1)
    return config
