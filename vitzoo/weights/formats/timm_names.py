"""The names of timm's VisionTransformer, which Facebook's models share but for a few."""

import dataclasses
from typing import Any

from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense, layers, norm
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.vit_rows import BLOCKS, attention_rows, mlp_rows
from vitzoo.weights.formats.vit_shapes import outputs_of, patch_of
from vitzoo.weights.layouts import PATCHES, from_heads, fused, to_heads, to_heads_bias
from vitzoo.weights.rows import Row


@dataclasses.dataclass(frozen=True)
class TimmNames:
    """Where those who share the names differ.

    Attributes:
        prefix: before every name.
        registers: the registers.
        scale: the factor of a block's branch `{n}`, 1 or 2.
        up, down: the two layers of the MLP.
    """

    prefix: str = ""
    registers: str = "reg_token"
    scale: str = "ls{n}.gamma"
    up: str = "fc1"
    down: str = "fc2"


TIMM = TimmNames()


def has_timm_names(source: Source, prefix: str = "") -> bool:
    """Whether these are the names of a model of this kind."""
    wanted = ("patch_embed.proj.weight", "blocks.0.norm1.weight", "blocks.0.attn.qkv.weight")
    return all(f"{prefix}{name}" in source.tensors for name in wanted)


def timm_fields(source: Source, names: TimmNames = TIMM) -> dict[str, Any]:
    """What names and shapes say of the Config. Heads, positions' grid, GELU and epsilon they don't say."""
    p, block = names.prefix, f"{names.prefix}blocks.0"
    width, channels, patch = patch_of(source, f"{p}patch_embed.proj.weight")
    hidden = source.shape(f"{block}.mlp.{names.down}.weight", 2)[1]
    classes = outputs_of(source, f"{p}head.weight")

    def there(name: str) -> bool:
        return f"{p}{name}" in source.tensors

    token, two = there("cls_token"), there("dist_token")
    return {
        "patch_size": patch,
        "width": width,
        "depth": source.depth(f"{p}blocks."),
        "mlp_dim": hidden,
        "num_classes": classes,
        "channels": channels,
        "pooling": "map" if there("attn_pool.latent") else "cls" if token and not there("fc_norm.weight") else "gap",
        "class_token": token,
        "distilled": "none" if not two else "token" if classes and not there("head_dist.weight") else "head",
        "registers": source.shape(f"{p}{names.registers}", 3)[1] if there(names.registers) else 0,
        "positions": "learned1d" if there("pos_embed") else "none",
        "patch_bias": there("patch_embed.proj.bias"),
        "embedding_norm": there("norm_pre.weight"),
        "qkv_bias": there("blocks.0.attn.qkv.bias"),
        "gated_mlp": source.shape(f"{block}.mlp.{names.up}.weight", 2)[0] == 2 * hidden,
        "layer_scale": 1e-5 if there(f"blocks.0.{names.scale.format(n=1)}") else None,
        "qk_norm": there("blocks.0.attn.q_norm.weight"),
        "qk_norm_bias": there("blocks.0.attn.q_norm.bias"),
        "pre_logits": source.shape(f"{p}pre_logits.fc.weight", 2)[0] if there("pre_logits.fc.weight") else False,
        "norm_after_pooling": there("fc_norm.weight"),
    }


def timm_rows(config: ViTConfig, names: TimmNames = TIMM) -> list[Row]:
    """Every row of a model."""
    c, p = config, names.prefix
    rows = [Row(f"{p}patch_embed.proj.weight", "patch_embedding/kernel", PATCHES)]
    optional = [
        (c.patch_bias, "patch_embed.proj.bias", "patch_embedding/bias"),
        (c.has_class_token, "cls_token", "class_token"),
        (c.distilled != "none", "dist_token", "distillation_token"),
        (c.registers > 0, names.registers, "registers"),
        (c.positions == "learned1d", "pos_embed", "positions/embedding"),
    ]
    rows += [Row(f"{p}{theirs}", ours) for there, theirs, ours in optional if there]
    rows += norm(f"{p}norm_pre", "embedding_norm") if c.embedding_norm else []
    rows += layers(c.depth, _block(c, names))
    rows += norm(f"{p}fc_norm", "head_norm") if c.norm_after_pooling else norm(f"{p}norm", "encoder/norm")
    rows += _pool(c, f"{p}attn_pool") if c.pooling == "map" else []
    rows += dense(f"{p}pre_logits.fc", "pre_logits") if c.pre_logits else []
    rows += dense(f"{p}head", "head") if c.num_classes else []
    return rows + (dense(f"{p}head_dist", "distillation_head") if c.num_classes and c.distilled == "head" else [])


def _block(config: ViTConfig, names: TimmNames) -> list[Row]:
    block = f"{names.prefix}blocks.{{i}}"
    together = (f"{block}.attn.qkv.weight", f"{block}.attn.qkv.bias")
    rows = [
        *norm(f"{block}.norm1", f"{BLOCKS}/norm1"),
        *attention_rows(together, f"{block}.attn.proj", config),
        *norm(f"{block}.norm2", f"{BLOCKS}/norm2"),
        *mlp_rows(f"{block}.mlp.{names.up}", f"{block}.mlp.{names.down}", config),
    ]
    for theirs, ours in (("q", "query"), ("k", "key")) if config.qk_norm else ():
        rows += norm(f"{block}.attn.{theirs}_norm", f"{BLOCKS}/attention/{ours}_norm", bias=config.qk_norm_bias)
    if config.layer_scale is not None:
        rows += [Row(f"{block}.{names.scale.format(n=n)}", f"{BLOCKS}/scale{n}") for n in (1, 2)]
    return rows


def _pool(config: ViTConfig, theirs: str) -> list[Row]:
    ours, heads = "pool/attention", config.num_heads
    both = (f"{ours}/key", f"{ours}/value")
    return [
        Row(f"{theirs}.latent", "pool/probe"),
        Row(f"{theirs}.q.weight", f"{ours}/query/kernel", to_heads(heads)),
        Row(f"{theirs}.q.bias", f"{ours}/query/bias", to_heads_bias(heads)),
        Row(f"{theirs}.kv.weight", tuple(f"{path}/kernel" for path in both), fused(2, to_heads(heads), axis=0)),
        Row(f"{theirs}.kv.bias", tuple(f"{path}/bias" for path in both), fused(2, to_heads_bias(heads), axis=0)),
        Row(f"{theirs}.proj.weight", f"{ours}/out/kernel", from_heads(heads)),
        Row(f"{theirs}.proj.bias", f"{ours}/out/bias"),
        *norm(f"{theirs}.norm", "pool/norm"),
        *dense(f"{theirs}.mlp.fc1", "pool/mlp/up"),
        *dense(f"{theirs}.mlp.fc2", "pool/mlp/down"),
    ]
