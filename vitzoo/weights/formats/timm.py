"""timm's VisionTransformer: `model.safetensors` beside the Hub's `config.json`, or a file of arrays alone; and
Facebook's models in torch files (DINO, DINOv2, DeiT, DeiT III and MAE), whose names are timm's but for a few, and which
no config lies beside.

`config.json` names an architecture of timm's (which says heads, GELU and epsilon), arguments that differ from it
(`model_args`), and what images are made into (`pretrained_cfg`).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.models.base import Flat
from vitzoo.models.geometry import pair
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.weights import Weights, shown
from vitzoo.weights.formats import timm_config
from vitzoo.weights.formats.registry import Given, Reading, Writing
from vitzoo.weights.formats.settings import agrees
from vitzoo.weights.formats.timm_config import of_architecture
from vitzoo.weights.formats.vit_common import (
    BLOCKS,
    FIELDS,
    IMAGENET,
    Leaves,
    crop_fraction,
    num_heads,
    table_of,
)
from vitzoo.weights.mapping import Ignored, NameMap, block


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


def has_timm_names(source: Weights, prefix: str = "") -> bool:
    """Whether these are the names of a model of this kind."""
    wanted = ("patch_embed.proj.weight", "blocks.0.norm1.weight", "blocks.0.attn.qkv.weight")
    return all(f"{prefix}{name}" in source.tensors for name in wanted)


BLOCK = {
    "norm1": "norm1",
    "attention/query|key|value": "attn.qkv",
    "attention/query_norm": "attn.q_norm",
    "attention/key_norm": "attn.k_norm",
    "attention/out": "attn.proj",
    "norm2": "norm2",
}
POOL = {
    "probe": "latent",
    "attention/query": "q",
    "attention/key|value": "kv",
    "attention/out": "proj",
    "norm": "norm",
    "mlp/up": "mlp.fc1",
    "mlp/down": "mlp.fc2",
}


def timm_names(names: TimmNames = TIMM) -> NameMap:
    """The names of all that such a model may have."""
    p, scales = names.prefix, {f"scale{n}": names.scale.format(n=n) for n in (1, 2)}
    mlp = {"mlp/gate|up": f"mlp.{names.up}", "mlp/down": f"mlp.{names.down}"}
    found = {
        "patch_embedding": "patch_embed.proj",
        "class_token": "cls_token",
        "distillation_token": "dist_token",
        "registers": names.registers,
        "positions/embedding": "pos_embed",
        "embedding_norm": "norm_pre",
        **block(BLOCKS, "blocks.{i}", BLOCK | mlp | scales),
        "head_norm": "fc_norm",
        "encoder/norm": "norm",
        **block("pool", "attn_pool", POOL),
        "pre_logits": "pre_logits.fc",
        "head": "head",
        "distillation_head": "head_dist",
    }
    return NameMap({ours: f"{p}{theirs}" for ours, theirs in found.items()})


def timm_fields(file: Leaves) -> dict[str, Any]:
    """What names and shapes say of the Config. Heads, positions' grid, GELU and epsilon they don't say."""
    found = file.fields(*FIELDS)
    classes, token, mean = found["num_classes"], found["class_token"], found["norm_after_pooling"]
    two_heads = file.has("distillation_head/kernel") or not classes
    return found | {
        "pooling": "map" if file.has("pool/probe") else "cls" if token and not mean else "gap",
        "distillation": "none" if not file.has("distillation_token") else "head" if two_heads else "token",
        "positions": "learned1d" if file.has("positions/embedding") else "none",
        "gated_mlp": file.shape(f"{BLOCKS}/mlp/up/kernel", 2)[0] == 2 * found["mlp_dim"],
        "layer_scale": 1e-5 if file.has(f"{BLOCKS}/scale1") else None,
    }


RESIZE = {"position_resize": "bicubic", "position_antialias": True}
"""How timm's loader takes positions to another grid."""


class TimmViT:
    """Of `VisionTransformer` and `VisionTransformerDistilled`: ViT, DeiT, DeiT III, DINOv2, SigLIP, CLIP's towers."""

    name = "timm-vit"
    model = "vit"

    def recognises(self, source: Weights) -> bool:
        """By the patch embedding and the first block."""
        return has_timm_names(source)

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`. Without `config.json` heads, GELU and epsilon are those of published models."""
        architecture = _architecture(source)
        arguments = timm_config.section(source, "model_args")
        names = timm_names()
        fields = timm_fields(Leaves(source, names))
        agrees(source, {"num_features": fields["width"]})
        stated = dataclasses.replace(source, config=arguments, config_name="config.json's model_args")
        agrees(stated, {"embed_dim": fields["width"], "depth": fields["depth"], "in_chans": fields["channels"]})
        timm_config.check_channels(source, fields["channels"])
        found, notes = of_architecture(source, architecture, arguments, given, fields["width"])
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
            names=names,
            classes=timm_config.classes(source, fields["num_classes"]),
            preprocessing=preprocessing,
            notes=(*notes, *more),
        )

    def write(
        self, config: ViTConfig, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
        """See `Writer.write`. For timm it is `create_model("local-dir:FOLDER", pretrained=True)`."""
        timm_config.check(config)
        notes: tuple[str, ...] = ()
        if config.positions == "learned1d" and config.placed_prefix not in (0, config.prefix_tokens):
            config, params = _with_row_in_token(config, params)
            notes = ("the class token's row of positions is added to the token: timm has none beside registers",)
        content, more = timm_config.written(config, description)
        return Writing(timm_names().write(params), content, notes=(*notes, *more))


def _with_row_in_token(config: ViTConfig, params: Flat) -> tuple[ViTConfig, Flat]:
    """The same model, of which only the class token had a row of positions, without rows of tokens before the patches.

    As DINOv2's with registers are at timm; sums in float32 are the very ones that the model makes.
    """
    table = np.asarray(params["positions/embedding"])
    moved = {"class_token": np.asarray(params["class_token"]) + table[:, :1], "positions/embedding": table[:, 1:]}
    return dataclasses.replace(config, prefix_positions="none"), {**params, **moved}


def _architecture(source: Weights) -> str:
    """Its name without what follows a dot; "" where nothing says it."""
    for stated in (source.config.get("architecture"), source.besides.get("arch")):
        if stated and not isinstance(stated, str):
            raise source.refused(f"is of the architecture {shown(stated)}, which is no name")
        if stated:
            return stated.partition(".")[0]
    return ""


def _pooling(source: Weights, fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
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


MASK = Ignored(r"(backbone\.)?mask_token", "only pretraining by masked patches uses it")


@dataclasses.dataclass(frozen=True)
class Kind:
    """One of the projects.

    Attributes:
        marks: ends of names of which one is in its files and in no other's.
        names: where it differs from timm.
        ignored: names of what only its training uses.
        crop: the part of the resized side that evaluation keeps.
        resize: how its code takes positions to another grid.
        placed: whether the tokens before the patches have rows among the positions.
    """

    marks: tuple[str, ...]
    names: TimmNames = TIMM
    ignored: tuple[Ignored, ...] = ()
    crop: float = 0.875
    resize: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    placed: bool = True


KINDS = {
    "MAE": Kind(
        ("decoder_embed.weight",),
        ignored=(MASK, Ignored(r"decoder_.*", "the decoder, which only pretraining uses")),
    ),
    "DINOv2": Kind(
        ("register_tokens", "mask_token", "blocks.0.mlp.w12.weight"),
        TimmNames(registers="register_tokens"),
        (MASK, Ignored(r"(dino|ibot)_head\..*", "heads that only pretraining uses")),
        crop=1.0,
        resize={"position_offset": 0.1},
    ),
    "DeiT III": Kind(("blocks.0.gamma_1",), TimmNames(scale="gamma_{n}"), crop=1.0, placed=False),
    "DINO": Kind(
        ("head.last_layer.weight_v", "head.last_layer.parametrizations.weight.original1"),
        ignored=(Ignored(r"head\..*", "the head that only pretraining uses"),),
        resize={"position_offset": 0.1},
    ),
    "DeiT or MAE": Kind(()),
}
"""The last is taken of a training's file (`{"model": ...}`) with timm's very names."""


class FacebookViT:
    """Of the `.pth` files of the projects' pages."""

    name = "facebook-vit"
    model = "vit"

    def recognises(self, source: Weights) -> bool:
        """By timm's names with a name of one of the projects, or in a training's file of theirs."""
        return has_timm_names(source, _prefix(source)) and bool(_kind(source))

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`. Heads are those of the published sizes; GELU is exact and epsilon 1e-6."""
        kind_name = _kind(source) or "DeiT or MAE"
        kind, prefix = KINDS[kind_name], _prefix(source)
        names = dataclasses.replace(kind.names, prefix=prefix)
        if f"{prefix}blocks.0.mlp.w12.weight" in source.tensors:
            names = dataclasses.replace(names, up="w12", down="w3")
        name_map = timm_names(names)
        fields = timm_fields(Leaves(source, name_map))
        heads, note = num_heads(source, given, fields["width"])
        before = int(fields["class_token"]) + int(fields["distillation"] != "none")
        rows = source.shape(f"{prefix}pos_embed", 3)[1]
        first = ("class", before) if kind.placed else ("none", 0)
        size, placed = table_of(source, rows, fields["patch_size"], [first], [], given)
        fields |= {"num_heads": heads, "gelu": "exact", "norm_epsilon": 1e-6}
        fields |= {"image_size": size, "prefix_positions": placed}
        fields |= {"position_resize": "bicubic", **kind.resize}
        if fields["registers"]:  # these models' code resizes otherwise
            fields |= {"position_offset": 0.0, "position_antialias": True}
        notes = [f"read as {kind_name}: exact GELU, epsilon 1e-6, ImageNet's mean and deviation", note]
        return Reading(
            model={"name": "vit", **fields},
            names=name_map,
            ignored=kind.ignored,
            preprocessing={
                "resize": "short_side_crop",
                "interpolation": "bicubic",
                "crop_fraction": crop_fraction(kind.crop, size),
                "crop_offset": "half_even",
                **IMAGENET,
            },
            notes=tuple(filter(None, notes)),
        )


def _prefix(source: Weights) -> str:
    """Of the backbone, where heads stand beside it."""
    return "backbone." if "backbone.cls_token" in source.tensors else ""


def _kind(source: Weights) -> str | None:
    prefix = _prefix(source)
    for name, kind in KINDS.items():
        if any(mark in source.tensors or f"{prefix}{mark}" in source.tensors for mark in kind.marks):
            return name
    if prefix:
        return "DINO"
    return "DeiT or MAE" if "model" in source.besides else None
