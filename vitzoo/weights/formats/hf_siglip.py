"""transformers' SigLIP (and SigLIP 2 of one image size): its image tower."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.checkpoints.metadata import Description
from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.models.vit_config import ViTConfig
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights, shown
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.hf_vit_config import as_table, body, reading, written
from vitzoo.weights.formats.registry import Given, Reading, Writing
from vitzoo.weights.formats.settings import written_labels
from vitzoo.weights.formats.vit_common import BLOCKS, PLAIN
from vitzoo.weights.mapping import Ignored, Layout, NameMap, block, reshaped

PREFIXES = ("vision_model.", "")
STACK = "encoder.layers"
TEXT = Ignored(r"text_model[.].*|logit_(scale|bias)", "the text tower and what compares it with images")
BUFFER = Ignored(r"(vision_model[.])?embeddings[.]position_ids", "0, 1, 2 ..., not weights")
PROBE = Ignored(r"vision_model[.]head[.].*", "pooling by attention, which the head of classes doesn't read")
ONLY: dict[str, JSON] = {
    "class_token": False,
    "distillation": "none",
    "registers": 0,
    "qkv_bias": True,
    "gated_mlp": False,
    "layer_scale": None,
    "pre_logits": False,
}


class SigLIP:
    """Of `SiglipVisionModel`, alone or in a `SiglipModel`, which pools by attention, and of
    `SiglipForImageClassification`, whose head sees the mean of the patches."""

    where = "transformers' SigLIP"
    types = ("siglip", "siglip_vision_model")

    def recognises(self, source: Weights) -> bool:
        """By the patch embedding and the first block, without a class token, which CLIP has."""
        return _prefix(source) is not None

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`."""
        settings.of_type(source, *self.types)
        p, of_tower = _prefix(source) or "", source.config.get("vision_config") or source.config
        if not isinstance(of_tower, Mapping):
            raise source.refused(f"config.json has vision_config = {shown(of_tower)}; settings are right")
        within = "" if of_tower is source.config else "'s vision_config"
        tower = dataclasses.replace(source, config=of_tower, config_name=f"config.json{within}")
        settings.of_type(tower, *self.types)
        names = _names(p)
        how: dict[str, Any] = {"epsilon": 1e-6, "gelu": "gelu_pytorch_tanh", "table_dimensions": 2}
        shared, whole, notes = body(tower, names, given, 0, **how)
        outputs = shared["num_classes"]
        probe = f"{p}head.probe" in source.tensors
        settings.only(tower, {"vision_use_head": probe})
        if not probe and not outputs:
            notes.append("nothing pools in this file: features are the mean of the patches")
        fields = shared | {
            "pooling": "map" if probe and not outputs else "gap",
            "class_token": False,
            "prefix_positions": "none",
            **settings.shares(tower, {"attention_dropout": "attention_dropout"}),
        }
        ignored = (TEXT, BUFFER, *((PROBE,) if outputs else ()))
        return reading(source, fields, whole, "SiglipImageProcessor", names, ignored, notes)

    def takes(self, config: ViTConfig) -> bool:
        """What has no class token."""
        return not config.has_class_token

    def write(self, config: ViTConfig, params: Flat, description: Description) -> Writing:
        """See `Writer.write`. A model without a class token whose head sees the mean of the patches goes out too."""
        c = dataclasses.replace(config, class_token=config.has_class_token)
        settings.must_be(c, PLAIN | ONLY | ({"pooling": "gap"} if c.num_classes else {}), self.where)
        if c.head_size * c.num_heads != c.width:
            raise UserError("model.head_dim", c.head_dim, f"has no place in {self.where}")
        for field in ("image_size", "patch_size"):
            height, width = getattr(c, field.replace("size", "shape"))[:2]
            if height != width:
                raise UserError(f"model.{field}", (height, width), f"has no place in {self.where}: it must be square")
        c, params = as_table(c, params, 0, self.where)
        tower = {
            "model_type": "siglip_vision_model",
            **written(c, self.where),
            "attention_dropout": c.attention_dropout,
            "vision_use_head": c.pooling == "map",
        }
        content: dict[str, Any] = {"architectures": ["SiglipVisionModel"], **tower}
        if c.num_classes:
            content = {
                "architectures": ["SiglipForImageClassification"],
                "model_type": "siglip",
                "vision_config": tower,
                **written_labels(c.num_classes, description),
            }
        arrays = _names(PREFIXES[0]).write(params)
        return Writing(arrays, content, *hf_images.written(description, self.where))


def _prefix(source: Weights) -> str | None:
    for prefix in PREFIXES:
        wanted = (
            "embeddings.patch_embedding.weight",
            f"{STACK}.0.self_attn.q_proj.weight",
            "post_layernorm.weight",
        )
        clip = f"{prefix}embeddings.class_embedding" in source.tensors
        if not clip and all(f"{prefix}{name}" in source.tensors for name in wanted):
            return prefix
    return None


BLOCK = {
    "norm1": "layer_norm1",
    "attention/query": "self_attn.q_proj",
    "attention/key": "self_attn.k_proj",
    "attention/value": "self_attn.v_proj",
    "attention/out": "self_attn.out_proj",
    "norm2": "layer_norm2",
    "mlp/up": "mlp.fc1",
    "mlp/down": "mlp.fc2",
}
POOL = {
    "probe": "probe",
    "attention/query|key|value/kernel": "attention.in_proj_weight",
    "attention/query|key|value/bias": "attention.in_proj_bias",
    "attention/out": "attention.out_proj",
    "norm": "layernorm",
    "mlp/up": "mlp.fc1",
    "mlp/down": "mlp.fc2",
}


def _names(prefix: str) -> NameMap:
    names = {
        "patch_embedding": f"{prefix}embeddings.patch_embedding",
        "positions/embedding": f"{prefix}embeddings.position_embedding.weight",
        **block(BLOCKS, f"{prefix}{STACK}.{{i}}", BLOCK),
        "encoder/norm": f"{prefix}post_layernorm",
        **block("pool", f"{prefix}head", POOL),
        "head": "classifier",
    }

    def layout(path: str, shape: tuple[int, ...]) -> Layout | None:
        return reshaped(shape[1:], shape) if path == "positions/embedding" else None

    return NameMap(names, layouts=layout)
