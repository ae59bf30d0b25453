"""Two towers (https://arxiv.org/abs/2103.00020) of one's own: pictures, and their captions told from all others."""

import dataclasses

import jax.numpy as jnp
import simclr
from flax import nnx

import vitzoo.config
from vitzoo.evaluation.settings import Evaluator
from vitzoo.models.bert import BERT, BERTConfig
from vitzoo.models.vit import ViT, ViTConfig


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 16
    image_size: int | tuple[int, int] | None = None
    channels: int | None = None
    vocabulary_size: int | None = None


class TwoTowers(nnx.Module):
    Config = Config
    INPUTS = {"image": "image", "tokens": "text"}

    def __init__(self, config, *, rngs, execution):
        sizes = dict(width=config.width, depth=1, num_heads=2, mlp_dim=64, dropout=0.0, attention_dropout=0.0)
        how = {"rngs": rngs, "execution": execution}
        size, channels, ids = config.image_size, config.channels, config.vocabulary_size
        self.image = ViT(ViTConfig(**sizes, patch_size=2, num_classes=0, image_size=size, channels=channels), **how)
        self.text = BERT(BERTConfig(**sizes, head="none", pooler=False, vocabulary_size=ids), **how)
        self.log_scale = nnx.Param(jnp.log(10.0))

    def __call__(self, image, tokens, tokens_segments, *, train=False, key=None):
        seen = self.image(image, train=train)
        read = self.text.sentence_embedding(self.text.encode(tokens, tokens_segments=tokens_segments), tokens_segments)
        return tuple(one / jnp.linalg.norm(one, axis=-1, keepdims=True) for one in (seen, read))


def embedded(model, batch, **how):
    given = (batch[name] for name in ("image", "tokens", "tokens_segments"))
    return dict(zip(("image", "text"), model(*given, **how), strict=True))


@dataclasses.dataclass(frozen=True)
class Contrast(simclr.Contrast):
    def embeddings(self, model, batch, key=None, *, train=True):
        return embedded(model, batch, train=train)

    def sums_of(self, embeddings, params, batch, *, memory=None, step=0):
        scores = jnp.exp(params["log_scale"]) * embeddings["image"] @ embeddings["text"].T
        mine, real = jnp.eye(len(scores), dtype=bool), batch["example_weight"] > 0
        same = (batch["tokens"][:, None] == batch["tokens"][None]).all(-1)  # a caption that is there twice is no other
        scores = jnp.where(mine | (~same & real & real[:, None]), scores, -jnp.inf)
        found = sum(jnp.diagonal(nnx.log_softmax(scores, axis)) for axis in (0, 1))
        return {"contrast": -jnp.where(real, found, 0).sum()}, {}, {}


@dataclasses.dataclass(frozen=True)
class Retrieval(Evaluator):
    BETTER = {"recall": max}

    def outputs(self, model, batch):
        return embedded(model, batch) | {"tokens": batch["tokens"], "example_weight": batch["example_weight"]}

    def metrics(self, rows, num_classes):
        nearest = (rows["image"] @ rows["text"].T).argmax(1)
        return {"recall": float((rows["tokens"][nearest] == rows["tokens"]).all(-1).mean())}


def get_config():
    config = vitzoo.config.default()
    config.total_steps, config.data = 48, dict(name=vitzoo.config.required("csv:FILE"), batch_size=16)
    config.inputs = dict(tokens=dict(length=24, tokenizer=dict(kind="bytes")))
    config.model, config.objective = dict(name="towers:TwoTowers"), dict(name="towers:Contrast")
    config.optimizer = dict(name="adamw", learning_rate=0.003)
    config.checkpoint = dict(every_steps=24, keep=4, keep_best="found/recall")
    config.evaluate = dict(found=dict(name="towers:Retrieval", split="validation", batch_size=7, every_steps=24))
    return config
