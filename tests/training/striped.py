"""A dataset in memory for tests of the trainer: 8 × 8 images with stripes across (class 0) or down (1), and noise."""

import dataclasses

import numpy as np

from vitzoo.data.sources.base import Table


class Stripes:
    """64 training and 20 test images; `shifted` = 1 swaps the classes, so that the data are others."""

    shifted = 0

    def __init__(self, data):
        self.data = data

    def open(self, split):
        generator = np.random.default_rng(0)
        labels = (np.arange(84, dtype=np.int32) + self.shifted) % 2
        stripes = np.where(np.arange(8) % 2, 40, 200)
        images = np.stack(
            [stripes[:, None] + 0 * stripes if label else stripes + 0 * stripes[:, None] for label in labels]
        )
        images = np.clip(images + generator.normal(0, 60, images.shape), 0, 255).astype(np.uint8)
        return Table(
            name="stripes",
            fields=("image", "label"),
            classes=("across", "down"),
            labels=labels,
            checksums=np.arange(84),
            splits={"train": np.arange(64), "test": np.arange(64, 84)},
            channels=1,
            image_shape=(8, 8),
            read=lambda row: {"image": images[row]},
        ).open(split)


class Wide(Stripes):
    """The same as 8 × 16 images, in three classes of which the last has no example."""

    def open(self, split):
        table = super().open(split).table
        return dataclasses.replace(
            table,
            name="wide",
            classes=("across", "down", "dotted"),
            image_shape=(8, 16),
            read=lambda row: {"image": np.tile(table.read(row)["image"], (1, 2))},
        ).open(split)


def config(**changes):
    """20 steps of a tiny ViT with everything random on."""
    import vitzoo

    config = vitzoo.config.default()
    config.total_steps = 20
    config.model = dict(
        name="vit",
        patch_size=4,
        width=16,
        depth=2,
        mlp_dim=32,
        num_heads=2,
        dropout=0.1,
        drop_path=0.1,
        layer_scale=0.1,
    )
    config.data = dict(name="striped:Stripes", batch_size=16)
    config.augment = dict(crop="shift", shift=1, mixup=0.2)
    config.optimizer = dict(name="adamw", learning_rate=1e-2, weight_decay=0.05, grad_clip=1.0)
    config.ema = 0.85
    config.accumulate = 2
    config.log = dict(every_steps=3, tensorboard=False)
    config.checkpoint = dict(every_steps=5, keep_best="test/loss")
    config.evaluate = dict(test=dict(name="classification", split="test", every_steps=4))
    for key, value in changes.items():
        config[key] = value
    return config


def finetune(checkpoint, **changes):
    """3 steps from a checkpoint, whose architecture is taken."""
    import vitzoo

    config = vitzoo.config.default()
    config.total_steps = 3
    config.init_from = str(checkpoint)
    config.data = dict(name="striped:Wide", batch_size=16)
    config.optimizer = dict(name="adamw", learning_rate=0.0)
    config.log = dict(every_steps=1, tensorboard=False)
    for key, value in changes.items():
        config[key] = value
    return config
