"""transformers' SigLIP (and SigLIP 2 of one image size): its image tower."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense, fused_projections, layers, norm, projections
from vitzoo.weights.files.json_file import shown
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.hf_vit_config import Shapes, as_table, body, head_of, written, written_labels
from vitzoo.weights.formats.vit_common import BLOCKS, PLAIN, outputs_of
from vitzoo.weights.layouts import PATCHES, reshaped
from vitzoo.weights.rows import Flat, Ignored, Row, write_rows

PREFIXES = ("vision_model.", "")
TYPES = ("siglip", "siglip_vision_model")
STACK = "encoder.layers"
PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
TEXT = Ignored(r"text_model[.].*|logit_(scale|bias)", "the text tower and what compares it with images")
BUFFER = Ignored(r"(vision_model[.])?embeddings[.]position_ids", "0, 1, 2 ..., not weights")
PROBE = Ignored(r"vision_model[.]head[.].*", "pooling by attention, which the head of classes doesn't read")
ONLY = {
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

    def recognises(self, source: Source) -> bool:
        """By the patch embedding and the first block, without a class token, which CLIP has."""
        return _prefix(source) is not None

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`."""
        settings.of_type(source, *TYPES)
        p, of_tower = _prefix(source) or "", source.config.get("vision_config") or source.config
        if not isinstance(of_tower, Mapping):
            raise source.refused(f"config.json has vision_config = {shown(of_tower)}; settings are right")
        within = "" if of_tower is source.config else "'s vision_config"
        tower = dataclasses.replace(source, config=of_tower, config_name=f"config.json{within}")
        settings.of_type(tower, *TYPES)
        shared, whole, notes = body(tower, _shapes(source, p), given, epsilon=1e-6, gelu="gelu_pytorch_tanh")
        outputs = outputs_of(source, "classifier.weight")
        probe = f"{p}head.probe" in source.tensors
        settings.only(tower, {"vision_use_head": probe})
        if not probe and not outputs:
            notes.append("nothing pools in this file: features are the mean of the patches")
        fields = shared | {
            "num_classes": outputs,
            "pooling": "map" if probe and not outputs else "gap",
            "class_token": False,
            "prefix_positions": "none",
            **settings.shares(tower, {"attention_dropout": "attention_dropout"}),
        }
        classes, objective = head_of(source, outputs)
        preprocessing, more = hf_images.read(
            source, "SiglipImageProcessor", whole, shared["image_size"], shared["channels"]
        )
        return Reading(
            model={"name": "vit", **fields},
            rows=tuple(_rows(ViTConfig(**fields), p)),
            ignored=(TEXT, BUFFER, *((PROBE,) if outputs else ())),
            objective=objective,
            classes=classes,
            preprocessing=preprocessing,
            notes=(*notes, *more),
        )

    def takes(self, config: ViTConfig) -> bool:
        """What has no class token."""
        return not config.has_class_token

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any]) -> Writing:
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
                **written_labels(c, description),
            }
        rows = _rows(c, PREFIXES[0])
        return Writing(write_rows(rows, params), content, *hf_images.written(description, self.where))


def _prefix(source: Source) -> str | None:
    for prefix in PREFIXES:
        wanted = ("embeddings.patch_embedding.weight", f"{STACK}.0.self_attn.q_proj.weight", "post_layernorm.weight")
        clip = f"{prefix}embeddings.class_embedding" in source.tensors
        if not clip and all(f"{prefix}{name}" in source.tensors for name in wanted):
            return prefix
    return None


def _shapes(source: Source, p: str) -> Shapes:
    return Shapes.found(
        source,
        patch=f"{p}embeddings.patch_embedding",
        stack=f"{p}{STACK}",
        query=f"{p}{STACK}.0.self_attn.q_proj",
        down=f"{p}{STACK}.0.mlp.fc2",
        rows=source.shape(f"{p}embeddings.position_embedding.weight", 2)[0],
        placed=0,
    )


def _rows(c: ViTConfig, p: str) -> list[Row]:
    block, table = f"{p}{STACK}.{{i}}", (c.patches, c.width)
    attention = {part: f"{block}.self_attn.{name}" for part, name in PARTS.items()}
    rows = [
        Row(f"{p}embeddings.patch_embedding.weight", "patch_embedding/kernel", PATCHES),
        Row(f"{p}embeddings.patch_embedding.bias", "patch_embedding/bias"),
        Row(f"{p}embeddings.position_embedding.weight", "positions/embedding", reshaped(table, (1, *table))),
        *layers(
            c.depth,
            [
                *norm(f"{block}.layer_norm1", f"{BLOCKS}/norm1"),
                *projections(attention, f"{BLOCKS}/attention", c.num_heads),
                *norm(f"{block}.layer_norm2", f"{BLOCKS}/norm2"),
                *dense(f"{block}.mlp.fc1", f"{BLOCKS}/mlp/up"),
                *dense(f"{block}.mlp.fc2", f"{BLOCKS}/mlp/down"),
            ],
        ),
        *norm(f"{p}post_layernorm", "encoder/norm"),
    ]
    rows += _probe_rows(c, f"{p}head") if c.pooling == "map" else []
    return rows + (dense("classifier", "head") if c.num_classes else [])


def _probe_rows(c: ViTConfig, head: str) -> list[Row]:
    together = (f"{head}.attention.in_proj_weight", f"{head}.attention.in_proj_bias")
    return [
        Row(f"{head}.probe", "pool/probe"),
        *fused_projections(together, f"{head}.attention.out_proj", "pool/attention", c.num_heads),
        *norm(f"{head}.layernorm", "pool/norm"),
        *dense(f"{head}.mlp.fc1", "pool/mlp/up"),
        *dense(f"{head}.mlp.fc2", "pool/mlp/down"),
    ]
