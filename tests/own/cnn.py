"""A user's own convolutional network with batch normalisation, and the data that it is trained on."""

import dataclasses

import numpy as np
from flax import nnx

from vitzoo.data.arrays import from_arrays
from vitzoo.nn.norms import BatchNorm
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = setting(16, "channels of the convolutions", minimum=1)
    image_size: int | tuple[int, int] | None = None
    channels: int | None = None
    num_classes: int | None = None


class Residual(nnx.Module):
    def __init__(self, width, *, rngs):
        self.conv = nnx.Conv(width, width, (3, 3), use_bias=False, rngs=rngs)
        self.norm = BatchNorm(width)

    def __call__(self, x, train, example_weight):
        return x + nnx.relu(self.norm(self.conv(x), train=train, example_weight=example_weight))


class CNN(nnx.Module):
    Config = Config
    INPUTS = {"image": "image", "example_weight": "weight"}

    def __init__(self, config, *, rngs, execution):
        self.stem = nnx.Conv(config.channels, config.width, (3, 3), strides=2, use_bias=False, rngs=rngs)
        self.norm = BatchNorm(config.width)
        self.blocks = nnx.List([Residual(config.width, rngs=rngs) for _ in range(2)])
        self.head = nnx.Linear(config.width, config.num_classes, rngs=rngs)

    def __call__(self, image, *, example_weight=None, train=False, key=None):
        x = nnx.relu(self.norm(self.stem(image), train=train, example_weight=example_weight))
        for block in self.blocks:
            x = block(x, train, example_weight)
        return self.head(x.mean((1, 2)))


def bars(data):
    """Bars across or down, with noise."""
    draws = np.random.default_rng(0)
    labels = np.arange(104) % 2
    images = np.zeros((104, 8, 8))
    for image, label in zip(images, labels, strict=True):
        image[draws.integers(8)] = 200
        image[:] = image.T if label else image
    images = np.clip(images + draws.normal(0, 20, images.shape), 0, 255).astype(np.uint8)
    parts = {"train": (images[:80], labels[:80]), "test": (images[80:], labels[80:])}
    return from_arrays(parts, ["across", "down"])


def get_config():
    import vitzoo.config

    config = vitzoo.config.default()
    config.total_steps = 24
    config.model = dict(name="cnn:CNN")
    config.data = dict(name="cnn:bars", batch_size=16)
    config.optimizer = dict(name="adamw", learning_rate=0.01, weight_decay=0.1)
    config.ema, config.ema_warm_start = 0.9, True
    config.checkpoint = dict(every_steps=12, keep=4, keep_best="")
    config.evaluate = dict(test=dict(name="classification", split="test", every_steps=12))
    return config
