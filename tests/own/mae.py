"""A masked autoencoder (He et al. 2021, https://arxiv.org/abs/2111.06377) of one's own: no logits, no classes."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from vitzoo.models.vit import Config as ViTConfig
from vitzoo.models.vit import ViT
from vitzoo.nn.attention import Attention
from vitzoo.nn.embeddings import patches
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.positions import SinCos2D
from vitzoo.nn.stack import Block, Stack


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 16
    depth: int = 2
    image_size: int | tuple[int, int] | None = None
    channels: int | None = None


class MaskedAutoencoder(nnx.Module):
    Config = Config

    def __init__(self, config, *, rngs, execution):
        how = {"rngs": rngs, "execution": execution}
        vit = ViTConfig(**dataclasses.asdict(config), mlp_dim=64, num_heads=2, patch_size=2, num_classes=0)
        self.encoder, width = ViT(vit, **how), config.width // 2
        norm = partial(LayerNorm, width, execution=execution)

        def block(rngs):
            attention = Attention(width, 2, rngs=rngs, execution=execution)
            return Block(width=width, attention=attention, mlp=MLP(width, 4 * width, **how | {"rngs": rngs}), norm=norm)

        self.inwards = nnx.Linear(config.width, width, rngs=rngs)
        self.mask_token = nnx.Param(0.02 * jax.random.normal(rngs.params(), (1, 1, width)))
        self.positions, self.decoder = SinCos2D(vit.grid, width), Stack(1, block, norm=norm(), **how)
        self.pixels = nnx.Linear(width, vit.patch_shape[0] * vit.patch_shape[1] * vit.channels, rngs=rngs)

    def __call__(self, image, seen):
        """[rows, patches, pixels of a patch] from the patches that are seen, [rows, seen]."""
        tokens = self.inwards(self.encoder.tokens(image, seen)[:, self.encoder.config.prefix_tokens :])
        everywhere = jnp.tile(self.mask_token[...], (len(image), self.encoder.config.patches, 1))
        filled = everywhere.at[jnp.arange(len(image))[:, None], seen].set(tokens)
        return self.pixels(self.decoder(filled + self.positions()).tokens)


@dataclasses.dataclass(frozen=True)
class Reconstruction:
    term_weights = {"pixels": 1.0}

    def bind(self, info, model_config):
        return self

    def counts(self, batch):
        return {"pixels": batch["example_weight"].sum()}

    def sums(self, model, batch, key=None, **_):
        wanted = patches(batch["image"], (2, 2)).reshape(len(batch["image"]), -1, 4)
        order = jax.vmap(lambda key: jax.random.permutation(key, wanted.shape[1]))(batch["key"])
        seen, hidden = jnp.split(order, [wanted.shape[1] // 4], axis=1)
        errors = ((model(batch["image"], seen) - wanted) ** 2).mean(-1)
        return {"pixels": (batch["example_weight"] * jnp.take_along_axis(errors, hidden, 1).mean(1)).sum()}, {}, {}


def get_config():
    import vitzoo.config

    config = vitzoo.config.default()
    config.total_steps, config.data = 24, dict(name="cnn:bars", batch_size=16)
    config.model, config.objective = dict(name="mae:MaskedAutoencoder"), dict(name="mae:Reconstruction")
    config.optimizer = dict(name="adamw", learning_rate=0.01)
    config.checkpoint = dict(every_steps=12, keep=4)
    return config
