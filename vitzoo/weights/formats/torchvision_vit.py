"""torchvision's VisionTransformer: `vit_b_16`, `vit_b_32`, `vit_l_16`, `vit_l_32`, `vit_h_14`."""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.base import Flat
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.registry import Reading, Writing
from vitzoo.weights.formats.settings import must_be
from vitzoo.weights.formats.vit_common import (
    BLOCKS,
    IMAGENET,
    PLAINER,
    check_square,
    num_heads,
    outputs_of,
    patch_of,
    table_of,
)
from vitzoo.weights.mapping import NameMap, block

WHERE = "torchvision's VisionTransformer"
BLOCK = "encoder.layers.encoder_layer_{i}"
FIRST = BLOCK.format(i=0)
FIXED: dict[str, Any] = {"gelu": "exact", "norm_epsilon": 1e-6}
PLAIN = (
    PLAINER
    | FIXED
    | {
        "pooling": "cls",
        "positions": "learned1d",
        "prefix_positions": "class",
        "head_dim": None,
    }
)
"""Settings that have one value there."""


class TorchvisionViT:
    """Of `torchvision.models.VisionTransformer`, with the MLP's names of any version."""

    name = "torchvision-vit"
    model = "vit"

    def recognises(self, source: Source) -> bool:
        """By the class token and the first layer's norm."""
        wanted = ("class_token", "encoder.pos_embedding", f"{FIRST}.ln_1.weight")
        return all(name in source.tensors for name in wanted)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Heads are those of the published sizes."""
        if "conv_proj.weight" not in source.tensors:
            raise source.refused("has no conv_proj.weight: a stem of several convolutions has no place here")
        width, channels, patch = patch_of(source, "conv_proj.weight")
        heads, note = num_heads(source, given, width)
        rows = source.shape("encoder.pos_embedding", 3)[1]
        size, _ = table_of(source, rows, patch, [("class", 1)], [], given)
        old_mlp = f"{FIRST}.mlp.linear_1.weight" in source.tensors
        up = f"{FIRST}.mlp.{'linear_1' if old_mlp else '0'}.weight"
        fields = FIXED | {
            "patch_size": patch,
            "width": width,
            "depth": source.depth(BLOCK.partition("{")[0]),
            "mlp_dim": source.shape(up, 2)[0],
            "num_heads": heads,
            "num_classes": outputs_of(source, "heads.head.weight"),
            "image_size": size,
            "channels": channels,
            "pre_logits": outputs_of(source, "heads.pre_logits.weight"),
            "position_resize": "corner_bicubic",
        }
        preprocessing, told = _preprocessing(size[0], width, patch[0])
        return Reading(
            model={"name": "vit", **fields},
            names=_names(old_mlp),
            preprocessing=preprocessing,
            notes=tuple(filter(None, (note, told))),
        )

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`. There is no config: the model's arguments are those of the call in torchvision."""
        must_be(config, PLAIN, WHERE)
        check_square(config.grid, WHERE)
        return Writing(_names(False).write(params), {})


def _preprocessing(side: int, width: int, patch: int) -> tuple[dict[str, Any], str]:
    """The published weights' own; those trained at other sizes than 224 resize to the size itself."""
    resized = side if side != 224 else 242 if (width, patch) == (1024, 16) else 256
    interpolation = "bilinear" if side == 224 else "bicubic"
    fields = {"resize": "short_side_crop", "interpolation": interpolation, "crop_fraction": side / resized}
    fields |= {"crop_offset": "half_even", **IMAGENET}
    return fields, f"preprocessing as of torchvision's weights of this size: {interpolation} to {resized}, crop {side}"


def _names(old_mlp: bool) -> NameMap:
    """The names; `old_mlp` are the MLP's before torchvision 0.13."""
    up, down = ("linear_1", "linear_2") if old_mlp else ("0", "3")
    inside = {
        "norm1": "ln_1",
        "attention/query|key|value/kernel": "self_attention.in_proj_weight",
        "attention/query|key|value/bias": "self_attention.in_proj_bias",
        "attention/out": "self_attention.out_proj",
        "norm2": "ln_2",
        "mlp/up": f"mlp.{up}",
        "mlp/down": f"mlp.{down}",
    }
    return NameMap(
        {
            "patch_embedding": "conv_proj",
            "class_token": "class_token",
            "positions/embedding": "encoder.pos_embedding",
            **block(BLOCKS, BLOCK, inside),
            "encoder/norm": "encoder.ln",
            "pre_logits": "heads.pre_logits",
            "head": "heads.head",
        }
    )
