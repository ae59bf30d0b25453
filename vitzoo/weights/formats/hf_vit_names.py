"""Names of a body of ViT, DeiT, MAE and DINOv2 in transformers: those of the published files, and of transformers 5."""

import dataclasses
import re
from collections.abc import Mapping

from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense, layers, norm, projections
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.hf_vit_config import Shapes
from vitzoo.weights.formats.vit_rows import BLOCKS, mlp_rows
from vitzoo.weights.layouts import PATCHES
from vitzoo.weights.rows import Ignored, Row

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
        (c.distilled != "none", "embeddings.distillation_token", "distillation_token"),
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
