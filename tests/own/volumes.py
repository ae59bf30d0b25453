"""Volumes of one's own: a dataset of sheets across an axis, how they are given to a model, a model of 3-D patches."""

import dataclasses
import zlib
from functools import partial

import jax
import numpy as np
from flax import nnx

import vitzoo.config
from vitzoo.data.processors.base import ArrayInput
from vitzoo.data.sources.base import Table
from vitzoo.nn.attention import Attention
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.stack import Block, Stack
from vitzoo.schema import setting


def sheets(data):
    draws, labels = np.random.default_rng(0), np.arange(96, dtype=np.int32) % 3
    volumes = draws.normal(0, 0.1, (96, 10, 10, 10)).astype(np.float32)
    for volume, label in zip(volumes, labels, strict=True):
        np.moveaxis(volume, label, 0)[draws.integers(1, 9)] += 2
    splits, fields = {"train": np.arange(72), "test": np.arange(72, 96)}, {"volume": "volume", "label": "label"}
    checksums, classes = np.array([zlib.crc32(one) for one in volumes], np.uint32), ("down", "across", "through")
    return Table("sheets", fields, splits, checksums, lambda i: {"volume": volumes[i]}, classes=classes, labels=labels)


@dataclasses.dataclass(frozen=True)
class Volume(ArrayInput):
    size: int = setting(8, "voxels along each side", minimum=2)

    def shape(self):
        return jax.ShapeDtypeStruct((self.size,) * 3, np.float32)

    def array(self, value, random):
        spare = value.shape[0] - self.size
        corner = [spare // 2] * 3 if random is None else random.integers(0, spare + 1, 3)
        return value[tuple(slice(start, start + self.size) for start in corner)]

    def model_fields(self):
        return {"volume_size": self.size}


@dataclasses.dataclass(frozen=True)
class Config:
    volume_size: int | None = None
    num_classes: int | None = None


class VolumeTransformer(nnx.Module):
    Config = Config
    INPUTS = {"volume": "volumes:Volume"}

    def __init__(self, config, *, rngs, execution):
        width, how = 16, {"execution": execution}
        self.patches = nnx.Conv(1, width, (2, 2, 2), strides=2, rngs=rngs)
        self.positions = nnx.Param(0.02 * jax.random.normal(rngs.params(), ((config.volume_size // 2) ** 3, width)))

        def block(rngs):
            attention, mlp = Attention(width, 2, rngs=rngs, **how), MLP(width, 2 * width, rngs=rngs, **how)
            return Block(width=width, attention=attention, mlp=mlp, norm=partial(LayerNorm, width, **how))

        self.encoder = Stack(2, block, norm=LayerNorm(width, **how), rngs=rngs, **how)
        self.head = nnx.Linear(width, config.num_classes, rngs=rngs)

    def __call__(self, volume, *, train=False, key=None):
        x = jax.lax.collapse(self.patches(volume[..., None]), 1, 4)
        return self.head(self.encoder(x + self.positions[...]).tokens.mean(1))


def get_config():
    config = vitzoo.config.default()
    config.total_steps, config.data = 48, dict(name="volumes:sheets", batch_size=16)
    config.model, config.inputs = dict(name="volumes:VolumeTransformer"), dict(volume=dict(size=8))
    config.optimizer, config.checkpoint = dict(name="adamw", learning_rate=0.01), dict(every_steps=24, keep=4)
    config.evaluate = dict(test=dict(name="classification", split="test", batch_size=7, every_steps=24))
    return config
