"""transformers' ViT, DINO (which is a ViT there), DeiT and MAE."""

import re
from collections.abc import Mapping
from typing import Any

from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.hf_vit_config import DROPOUTS, body, head_of
from vitzoo.weights.formats.hf_vit_names import (
    PARTS,
    STACKS,
    Names,
    body_rows,
    has_body,
    mask_token,
    names_in,
    shapes_in,
)
from vitzoo.weights.formats.hf_vit_written import as_table, written, written_labels
from vitzoo.weights.formats.model_types import type_of, what_it_says
from vitzoo.weights.formats.vit_rows import PLAIN
from vitzoo.weights.formats.vit_shapes import outputs_of
from vitzoo.weights.rows import Flat, Ignored, Row, write_rows

PREFIXES = ("vit.", "deit.", "")
TYPES = ("vit", "deit", "vit_mae")
DECODER = Ignored(r"decoder[.].*", "the decoder, which only pretraining uses")
CLASSIFIERS = {"none": ("classifier",), "token": ("classifier",), "head": ("cls_classifier", "distillation_classifier")}
"""`distilled` → the layers of the heads; ours are `head` and `distillation_head`."""
ONLY = {"gated_mlp": False, "layer_scale": None, "registers": 0, "pooling": "cls"}


class PlainViT:
    """Of `ViTModel`, `DeiTModel` and `ViTMAEModel`, alone or with a head or a decoder."""

    where = "transformers' ViT"

    def recognises(self, source: Source) -> bool:
        """By the first block's norm."""
        return has_body(source, PREFIXES, PARTS["norm1"][0]) is not None

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. A layer after the class token (`pooler`) is read where no head of classes is there."""
        settings.of_type(source, *TYPES)
        names = names_in(source, has_body(source, PREFIXES, PARTS["norm1"][0]) or "")
        distilled = _distilled(source, names)
        stated = type_of(source)
        if stated is not None and (stated == "deit") != (distilled != "none"):
            token = "no distillation token" if distilled == "none" else "a distillation token"
            raise source.refused(f"{what_it_says(source)}, and the file has {token}")
        shapes = shapes_in(source, names, 1 if distilled == "none" else 2)
        shared, whole, notes = body(source, shapes, given, epsilon=1e-12)
        head = f"{CLASSIFIERS[distilled][0]}.weight"
        outputs = outputs_of(source, head)
        pooler = f"{names.prefix}pooler.dense.weight"
        bias = f"{names.of_block('query', '0')}.bias" in source.tensors
        settings.only(source, {"qkv_bias": bias, **({"pooler_act": "tanh"} if pooler in source.tensors else {})})
        fields = shared | {
            "num_classes": outputs,
            "distilled": distilled,
            "qkv_bias": bias,
            "pre_logits": not outputs and outputs_of(source, pooler),
            **settings.shares(source, DROPOUTS),
        }
        classes, objective = head_of(source, outputs)
        kind = "DeiTImageProcessor" if distilled != "none" else "ViTImageProcessor"
        preprocessing, more = hf_images.read(source, kind, whole, shared["image_size"], shared["channels"])
        if any(name.startswith("decoder.decoder_embed") for name in source.tensors):
            notes.append("MAE's encoder: nothing is masked")
        unread = Ignored(
            f"{re.escape(names.prefix)}pooler[.]dense[.](weight|bias)", "a layer that the head doesn't read"
        )
        return Reading(
            model={"name": "vit", **fields},
            rows=tuple(_rows(ViTConfig(**fields), names)),
            ignored=(mask_token(names), DECODER, *((unread,) if outputs else ())),
            objective=objective,
            classes=classes,
            preprocessing=preprocessing,
            notes=(*notes, *more),
        )

    def takes(self, config: ViTConfig) -> bool:
        """All that no other takes."""
        return True

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any]) -> Writing:
        """See `Writer.write`."""
        settings.must_be(config, PLAIN | ONLY, self.where)
        outputs, distilled = config.num_classes or 0, config.distilled
        if outputs and config.pre_logits:
            raise UserError("model.pre_logits", config.pre_logits, f"has no place in {self.where} with classes")
        if distilled == "head" and not outputs:
            raise UserError("model.distilled", "head", f"has no place in {self.where} without classes")
        config, params = as_table(config, params, 1 if distilled == "none" else 2, self.where)
        family = "ViT" if distilled == "none" else "DeiT"
        kind = "Model" if not outputs else "ForImageClassification" + ("WithTeacher" if distilled == "head" else "")
        content = {
            "architectures": [f"{family}{kind}"],
            "model_type": family.lower(),
            **written(config, self.where),
            "qkv_bias": config.qkv_bias,
            **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
            **({"head_dim": config.head_dim} if config.head_size * config.num_heads != config.width else {}),
            **({"pooler_output_size": _hidden(config)} if config.pre_logits else {}),
            **written_labels(config, description),
        }
        names = Names(f"{family.lower()}." if outputs else "", STACKS[0], {part: n[0] for part, n in PARTS.items()})
        images = hf_images.written(description, self.where)
        return Writing(write_rows(_rows(config, names), params), content, *images)


def _hidden(config: ViTConfig) -> int:
    return config.width if config.pre_logits is True else int(config.pre_logits)


def _distilled(source: Source, names: Names) -> str:
    if f"{names.prefix}embeddings.distillation_token" not in source.tensors:
        return "none"
    return "head" if "distillation_classifier.weight" in source.tensors else "token"


def _rows(config: ViTConfig, names: Names) -> list[Row]:
    rows = body_rows(config, names)
    rows += dense(f"{names.prefix}pooler.dense", "pre_logits") if config.pre_logits else []
    if config.num_classes:
        for theirs, ours in zip(CLASSIFIERS[config.distilled], ("head", "distillation_head"), strict=False):
            rows += dense(theirs, ours)
    return rows
