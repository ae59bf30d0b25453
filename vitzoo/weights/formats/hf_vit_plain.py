"""transformers' ViT, DINO (which is a ViT there), DeiT and MAE; the names of their body and DINOv2's: those of the
published files, and of transformers 5."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense, layers, norm, projections
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.hf_vit_config import DROPOUTS, Shapes, as_table, body, head_of, written, written_labels
from vitzoo.weights.formats.known import type_of, what_it_says
from vitzoo.weights.formats.vit_common import BLOCKS, PLAIN, mlp_rows, outputs_of
from vitzoo.weights.layouts import PATCHES
from vitzoo.weights.rows import Flat, Ignored, Row, write_rows

STACKS = ("encoder.layer", "layers")
PARTS = {
    "norm1": ("layernorm_before", "norm1"),
    "query": ("attention.attention.query", "attention.q_proj"),
    "key": ("attention.attention.key", "attention.k_proj"),
    "value": ("attention.attention.value", "attention.v_proj"),
    "out": ("attention.output.dense", "attention.o_proj"),
    "norm2": ("layernorm_after", "norm2"),
    "up": ("intermediate.dense", "mlp.fc1", "mlp.weights_in", "mlp.up_proj"),
    "down": ("output.dense", "mlp.fc2", "mlp.weights_out", "mlp.down_proj"),
}
"""Layers of a block, and how they may be called. `weights_in` holds `gate_proj` and `up_proj`."""
GATE, TOGETHER = "mlp.gate_proj", "mlp.weights_in"
SCALE = "layer_scale{n}.lambda1"
PATCH = "embeddings.patch_embeddings.projection"
TABLE, REGISTERS = "embeddings.position_embeddings", "embeddings.register_tokens"
QKV = ("query", "key", "value")


@dataclasses.dataclass(frozen=True)
class Names:
    """Of one file.

    Attributes:
        prefix: before every name of the body.
        stack: of the blocks; their number follows.
        parts: each layer of a block → its name.
    """

    prefix: str
    stack: str
    parts: Mapping[str, str]

    def of_block(self, part: str, layer: str = "{i}") -> str:
        """The whole name of a block's layer."""
        return f"{self.prefix}{self.stack}.{layer}.{self.parts.get(part, part)}"


def has_body(source: Source, prefixes: tuple[str, ...], part: str) -> str | None:
    """The prefix of the body, if there is one whose first block has a layer of this name."""
    for prefix in prefixes:
        first = any(f"{prefix}{stack}.0.{part}.weight" in source.tensors for stack in STACKS)
        if first and f"{prefix}{PATCH}.weight" in source.tensors and f"{prefix}embeddings.cls_token" in source.tensors:
            return prefix
    return None


def names_in(source: Source, prefix: str) -> Names:
    """The names that a file has; for what isn't there those of the published files."""
    stack = next((s for s in STACKS if any(name.startswith(f"{prefix}{s}.0.") for name in source.tensors)), STACKS[0])

    def found(candidates: tuple[str, ...]) -> str:
        there = (name for name in candidates if f"{prefix}{stack}.0.{name}.weight" in source.tensors)
        return next(there, candidates[0])

    return Names(prefix, stack, {part: found(candidates) for part, candidates in PARTS.items()})


def shapes_in(source: Source, names: Names, placed: int) -> Shapes:
    """What the arrays say of the body, with `placed` rows of positions for tokens before the patches."""
    return Shapes.found(
        source,
        patch=f"{names.prefix}{PATCH}",
        stack=f"{names.prefix}{names.stack}",
        query=names.of_block("query", "0"),
        down=names.of_block("down", "0"),
        rows=source.shape(f"{names.prefix}{TABLE}", 3)[1],
        placed=placed,
    )


def body_rows(config: ViTConfig, names: Names) -> list[Row]:
    """Every row but the heads'."""
    c, p = config, names.prefix
    optional = [
        (c.distillation != "none", "embeddings.distillation_token", "distillation_token"),
        (c.registers > 0, REGISTERS, "registers"),
    ]
    return [
        Row(f"{p}{PATCH}.weight", "patch_embedding/kernel", PATCHES),
        Row(f"{p}{PATCH}.bias", "patch_embedding/bias"),
        Row(f"{p}embeddings.cls_token", "class_token"),
        *(Row(f"{p}{theirs}", ours) for there, theirs, ours in optional if there),
        Row(f"{p}{TABLE}", "positions/embedding"),
        *layers(c.depth, _block(c, names)),
        *norm(f"{p}layernorm", "encoder/norm"),
    ]


def _block(c: ViTConfig, names: Names) -> list[Row]:
    attention, heads = f"{BLOCKS}/attention", c.num_heads
    rows = [
        *norm(names.of_block("norm1"), f"{BLOCKS}/norm1"),
        *projections({part: names.of_block(part) for part in QKV}, attention, heads, bias=c.qkv_bias),
        *projections({"out": names.of_block("out")}, attention, heads),
        *norm(names.of_block("norm2"), f"{BLOCKS}/norm2"),
    ]
    if c.gated_mlp and names.parts["up"] != TOGETHER:
        rows += dense(names.of_block(GATE), f"{BLOCKS}/mlp/gate")
        rows += [*dense(names.of_block("up"), f"{BLOCKS}/mlp/up"), *dense(names.of_block("down"), f"{BLOCKS}/mlp/down")]
    else:
        rows += mlp_rows(names.of_block("up"), names.of_block("down"), c)
    scales = (1, 2) if c.layer_scale is not None else ()
    return rows + [Row(names.of_block(SCALE.format(n=n)), f"{BLOCKS}/scale{n}") for n in scales]


def mask_token(names: Names) -> Ignored:
    """What stands for hidden patches in pretraining."""
    return Ignored(f"{re.escape(names.prefix)}embeddings[.]mask_token", "only pretraining by masked patches")


PREFIXES = ("vit.", "deit.", "")
TYPES = ("vit", "deit", "vit_mae")
DECODER = Ignored(r"decoder[.].*", "the decoder, which only pretraining uses")
CLASSIFIERS = {"none": ("classifier",), "token": ("classifier",), "head": ("cls_classifier", "distillation_classifier")}
"""`distillation` → the layers of the heads; ours are `head` and `distillation_head`."""
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
            "distillation": distilled,
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
        outputs, distilled = config.num_classes or 0, config.distillation
        if outputs and config.pre_logits:
            raise UserError("model.pre_logits", config.pre_logits, f"has no place in {self.where} with classes")
        if distilled == "head" and not outputs:
            raise UserError("model.distillation", "head", f"has no place in {self.where} without classes")
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
        for theirs, ours in zip(CLASSIFIERS[config.distillation], ("head", "distillation_head"), strict=False):
            rows += dense(theirs, ours)
    return rows
