"""transformers' DINOv2, with and without registers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense
from vitzoo.weights.files.json_file import shown
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.hf_vit_config import DROPOUTS, as_table, body, head_of, written, written_labels
from vitzoo.weights.formats.hf_vit_plain import (
    GATE,
    PARTS,
    REGISTERS,
    STACKS,
    TOGETHER,
    Names,
    body_rows,
    has_body,
    mask_token,
    names_in,
    shapes_in,
)
from vitzoo.weights.formats.known import type_of, what_it_says
from vitzoo.weights.formats.vit_common import PLAIN, outputs_of
from vitzoo.weights.rows import Flat, Row, write_rows

PREFIXES = ("dinov2.", "dinov2_with_registers.", "")
TYPES = ("dinov2", "dinov2_with_registers")
MULTIPLES = range(1, 65)
"""Of the width, that an MLP's size can be."""
ONLY = {"distillation": "none", "pre_logits": False}


class DINOv2:
    """Of `Dinov2Model` and `Dinov2WithRegistersModel`, alone or with a head of classes, which sees the class token
    beside the mean of the patches."""

    where = "transformers' DINOv2"

    def recognises(self, source: Source) -> bool:
        """By the first block's norm."""
        return has_body(source, PREFIXES, PARTS["norm1"][1]) is not None

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`."""
        settings.of_type(source, *TYPES)
        names = names_in(source, has_body(source, PREFIXES, PARTS["norm1"][1]) or "")
        shared, whole, notes = body(source, shapes_in(source, names, 1), given, epsilon=1e-6, mlp_stated=False)
        registers = f"{names.prefix}{REGISTERS}"
        count = source.shape(registers, 3)[1] if registers in source.tensors else 0
        outputs = outputs_of(source, "classifier.weight")
        bias = f"{names.of_block('query', '0')}.bias" in source.tensors
        gated = names.parts["up"] == TOGETHER or f"{names.of_block(GATE, '0')}.weight" in source.tensors
        settings.only(source, {"qkv_bias": bias, "use_swiglu_ffn": gated, "num_register_tokens": count})
        if type_of(source) == "dinov2" and count:
            raise source.refused(f"{what_it_says(source)}, and the file has registers, which it has not")
        fields = shared | {
            "num_classes": outputs,
            "pooling": "cls_gap" if outputs else "cls",
            "registers": count,
            "qkv_bias": bias,
            "gated_mlp": gated,
            "layer_scale": _layer_scale(source),
            "position_antialias": count > 0,
            **settings.shares(source, DROPOUTS),
        }
        if dropped := settings.shares(source, {"drop_path": "drop_path_rate"}).get("drop_path"):
            fields |= {"drop_path": dropped, "drop_path_schedule": "uniform"}
        classes, objective = head_of(source, outputs)
        preprocessing, more = hf_images.read(
            source, "BitImageProcessor", whole, shared["image_size"], shared["channels"]
        )
        return Reading(
            model={"name": "vit", **fields},
            rows=tuple(_rows(ViTConfig(**fields), names)),
            ignored=(mask_token(names),),
            objective=objective,
            classes=classes,
            preprocessing=preprocessing,
            notes=(*notes, *more),
        )

    def takes(self, config: ViTConfig) -> bool:
        """What has a part that only this family has."""
        return bool(
            config.layer_scale is not None or config.registers or config.gated_mlp or config.pooling == "cls_gap"
        )

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any]) -> Writing:
        """See `Writer.write`. A mask token of zeros, which the published files have, goes with it."""
        outputs = config.num_classes or 0
        settings.must_be(config, PLAIN | ONLY | {"pooling": "cls_gap" if outputs else "cls"}, self.where)
        if config.layer_scale is None:
            raise UserError("model.layer_scale", None, f"has no place in {self.where}, whose branches have factors")
        if config.grid[0] != config.grid[1] or config.image_shape[0] != config.image_shape[1]:
            raise UserError("model.image_size", config.image_size, f"has no place in {self.where}: it must be square")
        config, params = as_table(config, params, 1, self.where)
        kind = "Dinov2WithRegisters" if config.registers else "Dinov2"
        prefix = "dinov2_with_registers" if config.registers else "dinov2"
        common = written(config, self.where)
        del common["intermediate_size"]
        content = {
            "architectures": [f"{kind}{'ForImageClassification' if outputs else 'Model'}"],
            "model_type": prefix,
            **common,
            "mlp_ratio": _ratio(config),
            "qkv_bias": config.qkv_bias,
            "use_swiglu_ffn": config.gated_mlp,
            "layerscale_value": config.layer_scale,
            **({"num_register_tokens": config.registers} if config.registers else {}),
            **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
            "drop_path_rate": config.drop_path if config.drop_path_schedule == "uniform" else 0.0,
            **({"head_dim": config.head_dim} if config.head_size * config.num_heads != config.width else {}),
            **written_labels(config, description),
        }
        names = _written_names(config, f"{prefix}." if outputs else "")
        return Writing(_tensors(config, params, names), content, *hf_images.written(description, self.where))


def _layer_scale(source: Source) -> float:
    """What a branch's factors begin at."""
    stated = source.config.get("layerscale_value")
    if stated is not None and not settings.is_number(stated):
        raise source.refused(f"config.json has layerscale_value = {shown(stated)}; a number is right")
    return stated or 1.0


def _tensors(config: ViTConfig, params: Flat, names: Names) -> Iterator[tuple[str, np.ndarray]]:
    yield from write_rows(_rows(config, names), params)
    yield f"{names.prefix}embeddings.mask_token", np.zeros((1, config.width), np.float32)


def _rows(config: ViTConfig, names: Names) -> list[Row]:
    return body_rows(config, names) + (dense("classifier", "head") if config.num_classes else [])


def _written_names(config: ViTConfig, prefix: str) -> Names:
    """As the published files have them: attention as in ViT, norms and MLP of their own."""
    parts = {part: names[0] for part, names in PARTS.items()} | {"norm1": "norm1", "norm2": "norm2"}
    mlp = ("mlp.weights_in", "mlp.weights_out") if config.gated_mlp else ("mlp.fc1", "mlp.fc2")
    return Names(prefix, STACKS[0], parts | {"up": mlp[0], "down": mlp[1]})


def _ratio(config: ViTConfig) -> int:
    """How many times the width the MLP is; gated, two thirds of that, rounded up to a multiple of 8."""
    for ratio in MULTIPLES:
        hidden = config.width * ratio
        if config.mlp_dim == ((hidden * 2 // 3 + 7) // 8 * 8 if config.gated_mlp else hidden):
            return ratio
    rule = "two thirds of a multiple of the width" if config.gated_mlp else "a multiple of the width"
    raise UserError("model.mlp_dim", config.mlp_dim, f"has no place in transformers' DINOv2, where it is {rule}")
