"""Facebook's Vision Transformers in torch files: DINO, DINOv2, DeiT, DeiT III and MAE. Their names are timm's but for
a few; no config lies beside them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.base import Reading
from vitzoo.weights.formats.timm_vit import TIMM, TimmNames, has_timm_names, timm_fields, timm_rows
from vitzoo.weights.formats.vit_common import IMAGENET, crop_fraction, num_heads, table_of
from vitzoo.weights.rows import Ignored

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

    def recognises(self, source: Source) -> bool:
        """By timm's names with a name of one of the projects, or in a training's file of theirs."""
        return has_timm_names(source, _prefix(source)) and bool(_kind(source))

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Heads are those of the published sizes; GELU is exact and epsilon 1e-6."""
        kind_name = _kind(source) or "DeiT or MAE"
        kind, prefix = KINDS[kind_name], _prefix(source)
        names = dataclasses.replace(kind.names, prefix=prefix)
        if f"{prefix}blocks.0.mlp.w12.weight" in source.tensors:
            names = dataclasses.replace(names, up="w12", down="w3")
        fields = timm_fields(source, names)
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
            rows=tuple(timm_rows(ViTConfig(**fields), names)),
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


def _prefix(source: Source) -> str:
    """Of the backbone, where heads stand beside it."""
    return "backbone." if "backbone.cls_token" in source.tensors else ""


def _kind(source: Source) -> str | None:
    prefix = _prefix(source)
    for name, kind in KINDS.items():
        if any(mark in source.tensors or f"{prefix}{mark}" in source.tensors for mark in kind.marks):
            return name
    if prefix:
        return "DINO"
    return "DeiT or MAE" if "model" in source.besides else None
