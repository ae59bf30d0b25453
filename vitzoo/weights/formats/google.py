"""Google's codes for Vision Transformers: vision_transformer (the `.npz` files of the ViT paper, 2020, and of AugReg,
2021) and big_vision (ViT, FlexiViT and SigLIP's tower of images, of all its generations).

Both codes have the tanh form of GELU, an epsilon of 1e-6, and pixels from -1 to 1.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.models.geometry import pair
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import Grid, square_side
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats.registry import Given, Reading, Writing
from vitzoo.weights.formats.settings import must_be
from vitzoo.weights.formats.vit_common import PLAINER, check_square, square_or_given
from vitzoo.weights.mapping import SAME, Ignored, Layout, NameMap

STACKED, NUMBERED = "Transformer/encoderblock/", "Transformer/encoderblock_"
LAYER, PROBE = "Transformer/encoderblock_{i}/", "MAPHead_0/"
TABLES = ("Transformer/posembed_input/pos_embedding", "Transformer/pos_embedding", "pos_embedding")
"""Where positions stand: vision_transformer; big_vision before 2022; since then."""
PLAIN = PLAINER | {"gelu": "tanh", "norm_epsilon": 1e-6}
"""Settings of a ViT of ours that have one value in these codes."""


BLOCKS = "encoder/blocks/*"
MODULES = {"LayerNorm": ("norm1", "norm2"), "MultiHeadDotProductAttention": ("attention",), "MlpBlock": ("mlp",)}
"""Classes of modules in a block → ours, in their order."""
POOL = MODULES | {"LayerNorm": ("norm",)}
"""The same in the attention that pools."""
INSIDE = {"": "", **{f"{part}/": f"{part}/" for part in ("query", "key", "value", "out")}}
INSIDE |= {"up/": "Dense_0/", "down/": "Dense_1/"}
LEAVES = {f"{ours}{leaf}": f"/{theirs}{leaf}" for ours, theirs in INSIDE.items() for leaf in ("kernel", "bias")}
NORM = {"scale": "/scale", "bias": "/bias"}


def _same(path: str, shape: tuple[int, ...]) -> Layout:
    return SAME


def modules(
    names: Iterable[str], prefix: str, ours: str, classes: Mapping[str, tuple[str, ...]] = MODULES
) -> dict[str, str]:
    """Our paths of modules → those below a prefix, by class and in the order of their numbers, whatever these are.

    Args:
        names: of arrays; modules that they don't have are called as linen does, by a counter for each class.
        prefix: of the modules.
        ours: path of what has them.
        classes: the modules' classes → our names.
    """
    names, found = list(names), dict[str, str]()
    for kind, parts in classes.items():
        pattern = re.compile(rf"{re.escape(prefix)}{kind}_(\d+)/")
        numbers = sorted({int(match[1]) for name in names if (match := pattern.match(name))})
        numbers += range(len(numbers), len(parts))
        found |= {f"{ours}/{part}": f"{prefix}{kind}_{number}" for part, number in zip(parts, numbers, strict=False)}
    return found


def names_of(source: Weights) -> dict[str, str]:
    """Our paths → the names in a file, of what differs between the generations; a block's with `{i}` for the layer, but
    where an array holds all layers.
    """
    tensors = source.tensors
    stacked = any(name.startswith(STACKED) for name in tensors)
    table = next((name for name in TABLES if name in tensors), None)
    found = {} if table is None else {"positions/embedding": table}
    block = modules(tensors, STACKED if stacked else f"{NUMBERED}0/", BLOCKS)
    found |= {ours: name.replace(f"{NUMBERED}0/", LAYER, 1) for ours, name in block.items()}
    prefix = next((prefix for prefix in (PROBE, "") if f"{prefix}probe" in tensors), None)
    if prefix is not None:
        found |= {"pool/probe": f"{prefix}probe", **modules(tensors, prefix, "pool", POOL)}
    return found


def name_map(names: Mapping[str, str]) -> NameMap:
    """The names of all that a model may have, with those from `names_of`. Arrays are ours as they are."""
    names = {
        "patch_embedding": "embedding",
        "class_token": "cls",
        **names,
        "encoder/norm": "Transformer/encoder_norm",
        "pre_logits": "pre_logits",
        "head": "head",
    }
    return NameMap(names, leaves=LEAVES, norms=NORM, layouts=_same)


def check(config: ViTConfig, where: str, *, poolings: tuple[str, ...], positions: tuple[str, ...], placed: str) -> None:
    """Refuses a model that a code has no place for.

    Args:
        config: the model's.
        where: the format, for messages.
        poolings, positions: what the code knows of each.
        placed: `prefix_positions` of a model with a class token.
    """
    must_be(config, PLAIN, where)
    for field, known in (("pooling", poolings), ("positions", positions)):
        if getattr(config, field) not in known:
            raise UserError(
                f"model.{field}", getattr(config, field), f"has no place in {where}, which has {', '.join(known)}"
            )
    if config.pooling != "cls" and config.has_class_token:
        raise UserError("model.class_token", True, f"has no place in {where} with pooling={config.pooling}")
    if config.pooling == "cls" and config.positions == "learned1d":
        must_be(config, {"prefix_positions": placed}, where)
    if config.positions == "learned1d":
        check_square(config.grid, where)


USUAL_SIZE = 224
PREPROCESSING = {"resize": "squash", "interpolation": "bilinear", "antialias": False}
ROUNDED = {"cut": "fractions cut off", "none": "not rounded"}
FLEXIBLE = {"position_resize": "bilinear", "position_antialias": True}
ZEROS = Ignored(
    r"head/(kernel|bias)", "all zeros: published untrained; num_classes makes a head, which must be trained"
)


def is_vit(source: Weights) -> bool:
    """Whether a file's names are those of a ViT in these codes, alone or beside a text's tower."""
    return any(f"{tower}embedding/kernel" in source.tensors for tower in ("", "img/")) and any(
        "Transformer/encoderblock" in name for name in source.tensors
    )


def read_vit(source: Weights, given: Given, *, rounding: str) -> Reading:
    """See `Format.read`. `image_size` may be given where the patches don't fill a square; `positions` none, where no
    table means that and not fixed sines and cosines. `rounding` is what the code does with resized pixels.
    """
    _check(source)
    names = names_of(source)
    rows, columns, channels, width = source.shape("embedding/kernel", 4)
    class_token = "cls" in source.tensors
    table, pools = names.get("positions/embedding", ""), "pool/probe" in names
    if class_token and pools:
        raise source.refused("holds a class token and a probe that pools; no model of these codes has both")
    places, notes = _places(source, table, (rows, columns), class_token, given)
    ending, ignored, more = _ending(source, width)
    model = {
        "name": "vit",
        "patch_size": rows if rows == columns else (rows, columns),
        "channels": channels,
        "width": width,
        **_block(source, names, width),
        "pooling": "cls" if class_token else "map" if pools else "gap",
        **places,
        **ending,
    }
    if not class_token and not pools:
        notes.append("no class token and no probe: average pooling")
    shown = ROUNDED[rounding]
    return Reading(
        model=model,
        names=name_map(names),
        ignored=ignored,
        preprocessing=PREPROCESSING | {"rounding": rounding},
        notes=(
            *notes,
            *more,
            f"images by convention: squashed, bilinear without antialias, {shown}, -1 to 1",
        ),
    )


def _check(source: Weights) -> None:
    """Refuses what isn't one plain ViT."""
    tops = sorted({name.partition("/")[0] for name in source.tensors})
    if "img" in tops:
        raise source.refused(f"holds several models ({', '.join(tops)}); write FILE:img for that of images")
    if "conv_root" in tops or "block1" in tops:
        raise source.refused("is a hybrid, a ViT on top of a ResNet (conv_root, block1), which vitzoo doesn't have")


def _block(source: Weights, names: Mapping[str, str], width: int) -> dict[str, Any]:
    """Fields that the first block tells."""
    attention, mlp = names[f"{BLOCKS}/attention"], names[f"{BLOCKS}/mlp"]
    above = int("{i}" not in mlp)
    query = source.shape(f"{attention}/query/kernel".replace("{i}", "0"), 3 + above)
    hidden = source.shape(f"{mlp}/Dense_0/kernel".replace("{i}", "0"), 2 + above)
    *_, heads, head_dim = query
    return {
        "depth": query[0] if above else source.depth(NUMBERED, "/"),
        "num_heads": heads,
        "head_dim": None if heads * head_dim == width else head_dim,
        "mlp_dim": hidden[-1],
    }


def _ending(source: Weights, width: int) -> tuple[dict[str, Any], tuple[Ignored, ...], list[str]]:
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
    source: Weights, table: str, patch: Grid, class_token: bool, given: Given
) -> tuple[dict[str, Any], list[str]]:
    """Fields of image size and positions, and notes."""
    size = given.get("image_size")
    stated = None if size is None else pair(size)
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
    source: Weights, table: str, count: int, patch: Grid, class_token: bool, given: int | Grid | None
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
COUNTED = ("LayerNorm_0/", "MultiHeadDotProductAttention_1/", "LayerNorm_2/", "MlpBlock_3/")
"""A block's modules as published: one counter for all classes."""


class VisionTransformer:
    """Positions within the encoder, with a row for the class token where there is one."""

    name = "vision_transformer"
    model = "vit"

    def recognises(self, source: Weights) -> bool:
        """By where positions stand."""
        return is_vit(source) and TABLES[0] in source.tensors

    def read(self, source: Weights, given: Given) -> Reading:
        """See `read_vit`."""
        return read_vit(source, given, rounding="none")

    def write(
        self, config: ViTConfig, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
        """See `Writer.write`."""
        check(config, VISION_TRANSFORMER, poolings=("cls", "gap"), positions=("learned1d",), placed="class")
        names = {"positions/embedding": TABLES[0]} | modules([f"{LAYER}{name}" for name in COUNTED], LAYER, BLOCKS)
        return Writing(name_map(names).write(params), {}, file="npz")


BIG_VISION = "big_vision's format"
PREFIX = "params/"


class BigVision:
    """Positions beside the encoder, without a row for the class token; average, class token or a probe."""

    name = "big_vision"
    model = "vit"

    def recognises(self, source: Weights) -> bool:
        """By the names of the first layer and of blocks."""
        return is_vit(source)

    def read(self, source: Weights, given: Given) -> Reading:
        """See `read_vit`."""
        return read_vit(source, given, rounding="cut")

    def write(
        self, config: ViTConfig, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
        """See `Writer.write`."""
        known = {"poolings": ("cls", "gap", "map"), "positions": ("learned1d", "sincos2d")}
        check(config, BIG_VISION, placed="none", **known)
        names = {"positions/embedding": TABLES[2], **modules((), LAYER, BLOCKS), "pool/probe": f"{PROBE}probe"}
        arrays = name_map(names | modules((), PROBE, "pool", POOL)).write(params)
        return Writing(((PREFIX + name, array) for name, array in arrays), {}, file="npz")
