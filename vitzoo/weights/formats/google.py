"""Google's codes for Vision Transformers: vision_transformer (the `.npz` files of the ViT paper, 2020, and of AugReg,
2021) and big_vision (ViT, FlexiViT and SigLIP's tower of images, of all its generations).

Both codes have the tanh form of GELU, an epsilon of 1e-6, and pixels from -1 to 1.
"""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.geometry import pair
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import Grid, square_side
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import google_rows
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.google_rows import LAYER, NUMBERED, TABLES, Names, Parts, names_of
from vitzoo.weights.formats.vit_common import square_or_given
from vitzoo.weights.rows import Flat, Ignored

USUAL_SIZE = 224
PREPROCESSING = {"resize": "squash", "interpolation": "bilinear", "antialias": False}
ROUNDED = {"cut": "fractions cut off", "none": "not rounded"}
FLEXIBLE = {"position_resize": "bilinear", "position_antialias": True}
ZEROS = Ignored(
    r"head/(kernel|bias)", "all zeros: published untrained; num_classes makes a head, which must be trained"
)


def is_vit(source: Source) -> bool:
    """Whether a file's names are those of a ViT in these codes, alone or beside a text's tower."""
    return any(f"{tower}embedding/kernel" in source.tensors for tower in ("", "img/")) and any(
        "Transformer/encoderblock" in name for name in source.tensors
    )


def read_vit(source: Source, given: Mapping[str, Any], *, rounding: str) -> Reading:
    """See `Format.read`. `image_size` may be given where the patches don't fill a square; `positions` none, where no
    table means that and not fixed sines and cosines. `rounding` is what the code does with resized pixels.
    """
    _check(source)
    names = names_of(source)
    rows, columns, channels, width = source.shape("embedding/kernel", 4)
    class_token = "cls" in source.tensors
    if class_token and names.pool is not None:
        raise source.refused("holds a class token and a probe that pools; no model of these codes has both")
    places, notes = _places(source, names.table, (rows, columns), class_token, given)
    ending, ignored, more = _ending(source, width)
    model = {
        "name": "vit",
        "patch_size": rows if rows == columns else (rows, columns),
        "channels": channels,
        "width": width,
        **_block(source, names, width),
        "pooling": "cls" if class_token else "gap" if names.pool is None else "map",
        **places,
        **ending,
    }
    if not class_token and names.pool is None:
        notes.append("no class token and no probe: average pooling")
    shown = ROUNDED[rounding]
    present = {"pre_logits": bool(ending["pre_logits"]), "head": bool(ending["num_classes"])}
    return Reading(
        model=model,
        rows=names.rows(model["depth"], class_token=class_token, **present),
        ignored=ignored,
        preprocessing=PREPROCESSING | {"rounding": rounding},
        notes=(
            *notes,
            *more,
            f"images by convention: squashed, bilinear without antialias, {shown}, -1 to 1",
        ),
    )


def _check(source: Source) -> None:
    """Refuses what isn't one plain ViT."""
    tops = sorted({name.partition("/")[0] for name in source.tensors})
    if "img" in tops:
        raise source.refused(f"holds several models ({', '.join(tops)}); write FILE:img for that of images")
    if "conv_root" in tops or "block1" in tops:
        raise source.refused("is a hybrid, a ViT on top of a ResNet (conv_root, block1), which vitzoo doesn't have")


def _block(source: Source, names: Names, width: int) -> dict[str, Any]:
    """Fields that the first block tells."""
    above = int(names.stacked)
    query = source.shape(f"{names.block.attention}/query/kernel".replace("{i}", "0"), 3 + above)
    hidden = source.shape(f"{names.block.mlp}/Dense_0/kernel".replace("{i}", "0"), 2 + above)
    *_, heads, head_dim = query
    return {
        "depth": query[0] if names.stacked else source.depth(NUMBERED, "/"),
        "num_heads": heads,
        "head_dim": None if heads * head_dim == width else head_dim,
        "mlp_dim": hidden[-1],
    }


def _ending(source: Source, width: int) -> tuple[dict[str, Any], tuple[Ignored, ...], list[str]]:
    """Fields of what comes after pooling, what is left aside of it, and notes."""
    hidden = source.shape("pre_logits/kernel", 2)[1] if "pre_logits/kernel" in source.tensors else 0
    fields: dict[str, Any] = {"pre_logits": True if hidden == width else hidden, "num_classes": 0}
    if "head/kernel" not in source.tensors:
        return fields, (), ["no head: num_classes makes one, which must be trained"]
    fields["num_classes"] = source.shape("head/kernel", 2)[1]
    if source.numbers("head/kernel").any():
        return fields, (), []
    note = f"a head of {fields['num_classes']:,} classes that is all zeros was left out; one must be trained"
    if hidden:
        note += " (published fine-tuning leaves the layer before it out too: pre_logits=false)"
    return {**fields, "num_classes": 0}, (ZEROS,), [note]


def _places(
    source: Source, table: str, patch: Grid, class_token: bool, given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Fields of image size and positions, and notes."""
    stated = None if given.get("image_size") is None else pair(given["image_size"])
    if not table:
        kind = "none" if given.get("positions") == "none" else "sincos2d"
        height, width = stated or tuple(side * max(1, round(USUAL_SIZE / side)) for side in patch)
        notes = [f"no table of positions: {kind} taken" + ("" if kind == "none" else "; positions=none is the other")]
        if stated is None:
            notes.append(f"nothing tells the size of images: {height} × {width} taken; image_size changes it")
        return {"positions": kind, "image_size": (height, width)}, notes
    count = source.shape(table, 3)[1]
    grid, prefix, notes = find_grid(source, table, count, patch, class_token, stated)
    fields: dict[str, Any] = {"positions": "learned1d", "image_size": (grid[0] * patch[0], grid[1] * patch[1])}
    if class_token:
        fields["prefix_positions"] = "class" if prefix else "none"
    if (*patch, *grid, prefix) == (32, 32, 7, 7, 0):
        fields |= FLEXIBLE
        notes.append(
            "32 × 32 pixels and 7 × 7 places as FlexiViT keeps them: for it give patch_size and image_size=240"
        )
    return fields, notes


def find_grid(
    source: Source, table: str, count: int, patch: Grid, class_token: bool, given: Any
) -> tuple[Grid, int, list[str]]:
    """What a table of positions is of.

    Args:
        source: the file, for messages.
        table: the table's name, which says whether a class token is likelier to have a row in it.
        count: its rows.
        patch: rows and columns of pixels.
        class_token: whether the file has one.
        given: image size as a user states it, or None.

    Returns:
        Rows and columns of patches, rows of the table before those of the patches, and notes.

    Raises:
        UserError: the table is of no square, with or without a class token, nor of the size given.
    """
    prefixes = [("none", 0), ("class", 1)] if class_token else [("none", 0)]
    found = square_or_given(count, patch, prefixes[::-1] if table == TABLES[0] else prefixes, given)
    if found is None and square_side(count - 1) and not class_token:
        raise source.refused(f"has {count} positions, one more than a square, but no class token; give image_size")
    if found is None:
        raise source.refused(
            f"has {count} positions, not of a square; give image_size of the images that it was trained on"
        )
    (height, width), name = found
    grid, before = (height // patch[0], width // patch[1]), dict(prefixes)[name]
    shown = f"{grid[0]} × {grid[1]} patches" + (" and a class token" if before else "")
    return grid, before, [f"{count} positions taken for {shown}: images of {height} × {width}"]


VISION_TRANSFORMER = "vision_transformer's format"
PUBLISHED_BLOCK = Parts(
    (f"{LAYER}LayerNorm_0", f"{LAYER}LayerNorm_2"),
    f"{LAYER}MultiHeadDotProductAttention_1",
    f"{LAYER}MlpBlock_3",
)
"""As published: one counter for all classes of modules."""


class VisionTransformer:
    """Positions within the encoder, with a row for the class token where there is one."""

    name = "vision_transformer"
    model = "vit"
    kind = "npz"

    def recognises(self, source: Source) -> bool:
        """By where positions stand."""
        return is_vit(source) and TABLES[0] in source.tensors

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `read_vit`."""
        return read_vit(source, given, rounding="none")

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        google_rows.check(config, VISION_TRANSFORMER, poolings=("cls", "gap"), positions=("learned1d",), placed="class")
        return Writing(google_rows.write(Names(PUBLISHED_BLOCK, TABLES[0]), config, params), {})


BIG_VISION = "big_vision's format"
PREFIX = "params/"
PROBE = "MAPHead_0/"


class BigVision:
    """Positions beside the encoder, without a row for the class token; average, class token or a probe."""

    name = "big_vision"
    model = "vit"
    kind = "npz"

    def recognises(self, source: Source) -> bool:
        """By the names of the first layer and of blocks."""
        return is_vit(source)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `read_vit`."""
        return read_vit(source, given, rounding="cut")

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        known = {"poolings": ("cls", "gap", "map"), "positions": ("learned1d", "sincos2d")}
        google_rows.check(config, BIG_VISION, placed="none", **known)
        names = Names(
            block=Parts.linen(LAYER, 2),
            table=TABLES[2] if config.positions == "learned1d" else "",
            probe=f"{PROBE}probe",
            pool=Parts.linen(PROBE, 1) if config.pooling == "map" else None,
        )
        return Writing(((PREFIX + name, array) for name, array in google_rows.write(names, config, params)), {})
