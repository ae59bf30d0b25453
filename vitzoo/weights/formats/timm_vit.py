"""timm's VisionTransformer: `model.safetensors` beside the Hub's `config.json`, or a file of arrays alone; its names of
arrays, which Facebook's models share but for a few.

`config.json` names an architecture of timm's (which says heads, GELU and epsilon), arguments that differ from it
(`model_args`), and what images are made into (`pretrained_cfg`).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.models.geometry import pair
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense, layers, norm
from vitzoo.weights.files.json_file import shown
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import timm_config
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.settings import agrees
from vitzoo.weights.formats.timm_architectures import of_architecture
from vitzoo.weights.formats.vit_common import BLOCKS, attention_rows, mlp_rows, outputs_of, patch_of, table_of
from vitzoo.weights.layouts import PATCHES, from_heads, fused, to_heads, to_heads_bias
from vitzoo.weights.rows import Flat, Row, write_rows


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
        "distillation": "none" if not two else "token" if classes and not there("head_dist.weight") else "head",
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
        (c.distillation != "none", "dist_token", "distillation_token"),
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
    return rows + (dense(f"{p}head_dist", "distillation_head") if c.num_classes and c.distillation == "head" else [])


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


RESIZE = {"position_resize": "bicubic", "position_antialias": True}
"""How timm's loader takes positions to another grid."""


class TimmViT:
    """Of `VisionTransformer` and `VisionTransformerDistilled`: ViT, DeiT, DeiT III, DINOv2, SigLIP, CLIP's towers."""

    name = "timm-vit"
    model = "vit"

    def recognises(self, source: Source) -> bool:
        """By the patch embedding and the first block."""
        return has_timm_names(source)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `config.json` heads, GELU and epsilon are those of published models."""
        name = _architecture(source)
        arguments = timm_config.section(source, "model_args")
        fields = timm_fields(source)
        agrees(source, {"num_features": fields["width"]})
        stated = dataclasses.replace(source, config=arguments, config_name="config.json's model_args")
        agrees(stated, {"embed_dim": fields["width"], "depth": fields["depth"], "in_chans": fields["channels"]})
        timm_config.check_channels(source, fields["channels"])
        found, notes = of_architecture(source, name, arguments, given, fields["width"])
        fields |= found | RESIZE | {"pooling": _pooling(source, fields, arguments)}
        before = int(fields["class_token"]) + int(fields["distillation"] != "none")
        prefixes = [("class", before), ("none", 0)]
        if fields["registers"]:
            prefixes = [("all", before + fields["registers"]), ("none", 0), ("class", before)]
        sizes = timm_config.sizes(source)
        if fields["positions"] == "learned1d":
            rows = source.shape("pos_embed", 3)[1]
            size, placed = table_of(source, rows, fields["patch_size"], prefixes, sizes, given)
            fields |= {"image_size": size, "prefix_positions": placed}
            if any(pair(one) != size for one in sizes if one):
                notes.append(f"positions are of {size[0]} × {size[1]} pixels, which isn't what config.json says")
        else:
            fields["image_size"] = next((size for size in [*sizes, given.get("image_size")] if size), (224, 224))
        preprocessing, more = timm_config.preprocessing(source, fields["image_size"], fields["channels"])
        return Reading(
            model={"name": "vit", **fields},
            rows=tuple(timm_rows(ViTConfig(**fields))),
            classes=timm_config.classes(source, fields["num_classes"]),
            preprocessing=preprocessing,
            notes=(*notes, *more),
        )

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`. For timm it is `create_model("local-dir:FOLDER", pretrained=True)`."""
        timm_config.check(config)
        notes: tuple[str, ...] = ()
        if config.positions == "learned1d" and config.placed_prefix not in (0, config.prefix_tokens):
            config, params = _with_row_in_token(config, params)
            notes = ("the class token's row of positions is added to the token: timm has none beside registers",)
        content, more = timm_config.written(config, description)
        return Writing(write_rows(timm_rows(config), params), content, notes=(*notes, *more))


def _with_row_in_token(config: ViTConfig, params: Flat) -> tuple[ViTConfig, Flat]:
    """The same model, of which only the class token had a row of positions, without rows of tokens before the patches.

    As DINOv2's with registers are at timm; sums in float32 are the very ones that the model makes.
    """
    table = np.asarray(params["positions/embedding"])
    moved = {"class_token": np.asarray(params["class_token"]) + table[:, :1], "positions/embedding": table[:, 1:]}
    return dataclasses.replace(config, prefix_positions="none"), {**params, **moved}


def _architecture(source: Source) -> str:
    """Its name without what follows a dot; "" where nothing says it."""
    for stated in (source.config.get("architecture"), source.besides.get("arch")):
        if stated and not isinstance(stated, str):
            raise source.refused(f"is of the architecture {shown(stated)}, which is no name")
        if stated:
            return stated.partition(".")[0]
    return ""


def _pooling(source: Source, fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """What the head sees, as config.json says where the names leave it open."""
    stated = arguments.get("global_pool", source.config.get("global_pool"))
    if not stated:
        return fields["pooling"]
    pools = timm_config.POOLS
    if not isinstance(stated, str) or stated not in pools:
        raise source.refused(f"config.json has global_pool = {shown(stated)}; known: {', '.join(pools)}")
    if stated == "token" and not fields["class_token"]:
        raise source.refused("config.json has global_pool = token, but the file has no cls_token")
    return pools[stated]
