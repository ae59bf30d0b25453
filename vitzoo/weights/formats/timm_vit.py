"""timm's VisionTransformer: `model.safetensors` beside the Hub's `config.json`, or a file of arrays alone.

`config.json` names an architecture of timm's (which says heads, GELU and epsilon), arguments that differ from it
(`model_args`), and what images are made into (`pretrained_cfg`).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.models.geometry import pair
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.json_file import shown
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import timm_config
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.settings import agrees
from vitzoo.weights.formats.timm_architectures import of_architecture
from vitzoo.weights.formats.timm_names import has_timm_names, timm_fields, timm_rows
from vitzoo.weights.formats.vit_shapes import table_of
from vitzoo.weights.rows import Flat, write_rows

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
        before = int(fields["class_token"]) + int(fields["distilled"] != "none")
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
