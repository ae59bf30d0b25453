"""timm's `config.json` and its names of architectures: what they say of a ViT beyond its shapes, preprocessing and
classes; and a model of ours as such a config."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.inputs import input_of
from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights, shown
from vitzoo.weights.formats.registry import Given
from vitzoo.weights.formats.settings import (
    agrees,
    checked_names,
    give,
    heads_that,
    is_number,
    must_be,
    named,
    of_channels,
    theirs_of,
    value,
)
from vitzoo.weights.formats.vit_common import (
    IMAGENET,
    LARGEST_SIDE,
    SMALLEST_CROP,
    Size,
    crop_fraction,
    departures,
    num_heads,
)

SIZES = (
    *("tiny", "wee", "little", "xsmall", "small", "medium", "mediumd", "betwixt", "base", "large", "huge", "giant"),
    *("giantopt", "gigantic", "so150m", "so150m2", "so400m"),
)
KINDS = (
    *("vit", "deit", "deit3", "flexivit", "eva", "distilled", "gap", "map", "plus", "miil", "clip", "quickgelu"),
    *("siglip", "dinov2", "tipsv2", "36x1"),
)
"""Words of names whose models are built of plain blocks. Others (`rpn`, `xp`, `18x2` ...) compute something else, some
of them under the same names of arrays."""

TANH = (
    *(r"vit_base_patch32_siglip(_gap)?_256", r"vit_large_patch16_siglip(_gap)?_512"),
    *(r"vit_so400m_patch16_siglip(_gap)?_\d+", r"vit_giantopt_patch16_siglip(_gap)?_\d+"),
)
"""Architectures with the approximated GELU; the other SigLIPs have the exact one there."""

HEADS = {
    r"vit_base_patch16_gap_224|vit_giantopt_.*": 16,
    r"test_vit2?": 2,
    r"test_vit3": 3,
}
"""Heads that don't follow from the width."""

ACTIVATIONS = {"gelu": "exact", "gelu_tanh": "tanh", "quick_gelu": "quick"}
"""timm's names of activations → ours."""

FROM_SHAPES = (
    *("patch_size", "embed_dim", "depth", "mlp_ratio", "qkv_bias", "qk_norm", "init_values", "class_token", "in_chans"),
    *("num_classes", "no_embed_class", "reg_tokens", "pre_norm", "fc_norm", "pos_embed", "img_size"),
)
"""Arguments of models that the arrays say too."""

WITHOUT_EFFECT = (
    *("drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate"),
    *("weight_init", "fix_init", "dynamic_img_size"),
)
"""Arguments that don't change what the weights give."""


def of_architecture(
    source: Weights, name: str, arguments: Mapping[str, JSON], given: Given, width: int
) -> tuple[dict[str, JSON], list[str]]:
    """Heads, GELU, epsilon and whether pooling sees the tokens before the patches.

    Args:
        source: the file.
        name: of the architecture; "" is unknown.
        arguments: `model_args` of `config.json`.
        given: settings that a user states; they count where the name is unknown.
        width: of the model.

    Returns:
        Fields of the Config, and lines on what was taken by convention.

    Raises:
        UserError: an architecture or argument that isn't known here, or heads that nothing tells.
    """
    _check(source, name, arguments)
    heads, notes = _heads(source, name, arguments, given, width)
    clip = "_clip_" in name if name else "norm_pre.weight" in source.tensors
    found: dict[str, JSON] = {
        "num_heads": heads,
        "gelu": _gelu(source, name, arguments),
        "norm_epsilon": 1e-5 if clip else 1e-6,
        "pool_include_prefix": bool(arguments.get("pool_include_prefix", name == "test_vit3")),
    }
    if name:
        return found, notes
    usual = {field: found[field] for field in ("gelu", "norm_epsilon") if field not in given}
    shown = ", ".join(f"{field}={value}" for field, value in usual.items())
    notes += [f"{shown} as timm's and Facebook's models have it; no config.json says otherwise"] if usual else []
    return found | {field: given[field] for field in ("gelu", "norm_epsilon") if field in given}, notes


def _check(source: Weights, name: str, arguments: Mapping[str, JSON]) -> None:
    words = name.removeprefix("test_").split("_") if name else []
    known = (*SIZES, *KINDS, *(("vit2", "vit3") if name.startswith("test_") else ()))
    strange = [word for word in words if word not in known and not re.fullmatch(r"(patch|reg)?\d+", word)]
    if strange:
        raise source.refused(f"is of the architecture {shown(name)}, which isn't a plain ViT ({shown(strange[0])})")
    handled = (*FROM_SHAPES, *WITHOUT_EFFECT, "num_heads", "act_layer", "global_pool", "pool_include_prefix")
    for argument, stated in arguments.items():
        if argument not in handled:
            raise source.refused(f"config.json has model_args.{argument} = {shown(stated)}, which has no place here")


def _heads(
    source: Weights, name: str, arguments: Mapping[str, JSON], given: Given, width: int
) -> tuple[int, list[str]]:
    stated = arguments.get("num_heads")
    if stated is not None and type(stated) is not int:
        raise source.refused(f"config.json has model_args.num_heads = {shown(stated)}; an integer is right")
    if stated is None and "embed_dim" in arguments and "num_heads" not in given:
        raise source.refused(f"config.json has model_args.embed_dim without num_heads: {give('num_heads')}")
    if stated is not None or "embed_dim" in arguments:
        return heads_that(source, stated, "config.json says model_args.num_heads", given, width), []
    known = next((heads for pattern, heads in HEADS.items() if re.fullmatch(pattern, name)), None)
    if known is not None:
        return known, []
    heads, note = num_heads(source, {} if name else given, width)
    return heads, [] if name or not note else [note]


def _gelu(source: Weights, name: str, arguments: Mapping[str, JSON]) -> str:
    stated = arguments.get("act_layer")
    if stated is not None and (not isinstance(stated, str) or stated not in ACTIVATIONS):
        raise source.refused(f"config.json has act_layer = {shown(stated)}; known: {', '.join(ACTIVATIONS)}")
    if stated is not None:
        return ACTIVATIONS[stated]
    if any(re.fullmatch(pattern, name) for pattern in TANH):
        return "tanh"
    return "quick" if "quickgelu" in name else "exact"


WHERE = "timm's VisionTransformer"
POOLS = {"token": "cls", "avg": "gap", "map": "map"}
"""timm's names of what the head sees → ours."""
CROPS = {"center": "short_side_crop", "squash": "squash"}
OFFSET = "half_even"
"""Where timm, by torchvision, begins a crop: `Preprocessing.crop_offset`."""
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")
NAMED = {
    (192, 12, 3, 768): ("tiny", (16,)),
    (384, 12, 6, 1536): ("small", (8, 16, 32)),
    (768, 12, 12, 3072): ("base", (8, 16, 32)),
    (1024, 24, 16, 4096): ("large", (14, 16, 32)),
    (1280, 32, 16, 5120): ("huge", (14,)),
}
"""Width, depth, heads and MLP → timm's word for the size, and the patches that it has an architecture for."""
PLAIN = {"head_dim": None, "out_bias": True, "patch_norms": False, "pad_to_patch": False}
"""Settings that have one value there."""


def _pretrained(source: Weights) -> Mapping[str, JSON]:
    """Older files have everything at the top."""
    return section(source, "pretrained_cfg") or source.config


def section(source: Weights, name: str) -> Mapping[str, JSON]:
    """A part of `config.json` that holds settings; empty where there is none."""
    stated = source.config.get(name)
    if not isinstance(stated, Mapping | None):
        raise source.refused(f"config.json has {name} = {shown(stated)}; settings are right")
    return stated or {}


def sizes(source: Weights) -> list[int | tuple[int, int] | None]:
    """The image sizes that it says, likeliest first; None is none."""
    stated, size = section(source, "model_args").get("img_size"), _pretrained(source).get("input_size")
    sides = size[1:] if isinstance(size, list) else []
    found: list[Any] = [
        tuple(stated) if isinstance(stated, list) else stated,
        tuple(sides) if len(sides) == 2 else None,
    ]
    for one in found:
        for side in one if isinstance(one, tuple) else (one,):
            if one is not None and (type(side) is not int or not 0 < side < LARGEST_SIDE or one == ()):
                raise source.refused(f"config.json has an image size of {shown(one)}; a number or two are right")
    return found


def check_channels(source: Weights, channels: int) -> None:
    """Refuses an `input_size` that isn't channels, height and width, or is of other channels than the arrays."""
    size = _pretrained(source).get("input_size")
    if size is not None and not (isinstance(size, list) and len(size) == 3 and size[0] == channels):
        right = f"channels, height and width are right, and its arrays are for {channels} channels"
        raise source.refused(f"config.json has input_size = {shown(size)}; {right}")


def preprocessing(source: Weights, size: Size, channels: int) -> tuple[dict[str, JSON], list[str]]:
    """The fields of `Preprocessing`, and a line where convention took their place.

    Raises:
        UserError: cropping or resizing is of a kind not known here.
    """
    if not source.config:
        usual: dict[str, JSON] = {
            "resize": "short_side_crop",
            "interpolation": "bicubic",
            "crop_fraction": crop_fraction(0.875, size),
        }
        note = "preprocessing as of DeiT and DINO (ImageNet's mean and deviation, bicubic, crop 0.875): no config.json"
        return {**usual, "crop_offset": OFFSET, **IMAGENET}, [note]
    config = dataclasses.replace(source, config=_pretrained(source))

    def fits(stated: JSON) -> TypeGuard[float]:
        return is_number(stated) and SMALLEST_CROP <= stated <= 1

    part = value(config, "crop_pct", 0.875, fits, f"a number from {SMALLEST_CROP} to 1")
    interpolations = {name: name for name in INTERPOLATIONS}
    fields: dict[str, JSON] = {
        "resize": named(config, "crop_mode", "center", CROPS),
        "interpolation": named(config, "interpolation", "bicubic", interpolations),
        "crop_fraction": crop_fraction(part, size),
        "crop_offset": OFFSET,
    }
    for field in ("mean", "std"):
        stated = config.config.get(field)
        values = (
            () if stated is None else tuple(round(255 * x, 6) for x in of_channels(config, field, stated, channels))
        )
        fields[field] = values or IMAGENET[field]
    return fields, []


def classes(source: Weights, count: int) -> tuple[str, ...] | None:
    """The names by index; None where there are none, or no outputs.

    Raises:
        UserError: they are no name for each output, or `num_classes` is another number.
    """
    parts = (source.config, _pretrained(source))
    # to timm the first is the model's; the second may still be that of the weights that training began with
    counting = [part for part in parts if part.get("num_classes") is not None]
    for part in [section(source, "model_args"), *counting[:1]] if count else ():
        agrees(dataclasses.replace(source, config=part), {"num_classes": count})
    stated = (parts[0].get("label_names"), parts[1].get("label_names"), parts[0].get("labels"))
    found = next((one for one in stated if one), None)
    if found is None or not count:
        return None
    if isinstance(found, Mapping) and all(map(str.isdecimal, found)):
        found = [found[key] for key in sorted(found, key=int)]
    if not isinstance(found, list):
        raise source.refused(f"config.json has label_names = {shown(found)}; a list of a name for each class is right")
    if len(found) != count:
        raise source.refused(f"has {len(found)} label_names in config.json for {count} classes")
    return checked_names(source, "label_names", found)


def written(config: ViTConfig, description: Description) -> tuple[dict[str, JSON], list[str]]:
    """`config.json` of a model of ours, and notes on what timm will do otherwise with images.

    Raises:
        UserError: timm's model has no place for a setting (named).
    """
    check(config)
    names, images = description["classes"], input_of(description, "image")
    assert images is not None
    height, width, channels = config.image_shape
    pretrained: dict[str, JSON] = {
        "input_size": [channels, height, width],
        "fixed_input_size": True,
        "interpolation": images["interpolation"],
        "crop_pct": _crop_pct(images["crop_fraction"], height),
        "crop_mode": theirs_of("inputs.image.resize", images["resize"], CROPS, WHERE),
        "mean": [round(value / 255, 9) for value in images["mean"]],
        "std": [round(value / 255, 9) for value in images["std"]],
        "num_classes": config.num_classes or 0,
        "first_conv": "patch_embed.proj",
        "classifier": ["head", "head_dist"] if config.distillation == "head" else "head",
    }
    content: dict[str, JSON] = {
        "architecture": _architecture(config),
        "num_classes": config.num_classes or 0,
        "num_features": config.width,
        "global_pool": theirs_of("pooling", config.pooling, POOLS, WHERE),
        **({"label_names": list(names)} if names else {}),
        "model_args": _arguments(config),
        "pretrained_cfg": pretrained,
    }
    return content, departures(images, (height, width), OFFSET, "timm")


def check(config: ViTConfig) -> None:
    """Refuses settings that timm's model has no place for."""
    c = config
    if c.pre_logits:
        raise UserError("model.pre_logits", c.pre_logits, f"has no place in {WHERE}, which has given up this layer")
    must_be(c, PLAIN | {"patch_bias": not c.embedding_norm}, WHERE)
    must_be(c, {"positions": "learned1d"} if c.positions != "none" else {}, WHERE)
    must_be(c, {"qk_norm_bias": True} if c.qk_norm else {}, WHERE)
    must_be(c, {"norm_epsilon": 1e-6, "distillation": "none"} if c.gated_mlp else {}, WHERE)
    if c.distillation == "token" or (c.gated_mlp and c.pooling == "map"):
        field = "distillation" if c.distillation == "token" else "pooling"
        raise UserError(f"model.{field}", getattr(c, field), f"has no place in {WHERE}")
    if c.distillation == "head":
        must_be(c, {"registers": 0, "prefix_positions": "class", "norm_epsilon": 1e-6}, WHERE)
    if c.norm_epsilon not in (1e-5, 1e-6):
        raise UserError("model.norm_epsilon", c.norm_epsilon, f"has no place in {WHERE}, where it is 1e-6 or 1e-5")


def _architecture(c: ViTConfig) -> str:
    """The nearest one; whatever differs from it stands in the arguments."""
    if c.gated_mlp:
        return "vit_giant_patch14_dinov2"
    if c.distillation == "head":
        return "deit_base_distilled_patch16_224"
    if c.norm_epsilon == 1e-5:
        return "vit_base_patch16_clip_224"
    size, patches = NAMED.get((c.width, c.depth, c.num_heads, c.mlp_dim), ("base", (16,)))
    patch = c.patch_shape[0] if c.patch_shape[0] in patches else patches[-1]
    return f"vit_{size}_patch{patch}_224"


def _arguments(c: ViTConfig) -> dict[str, Any]:
    values: dict[str, Any] = {
        "img_size": list(c.image_shape[:2]),
        "patch_size": list(c.patch_shape),
        "in_chans": c.image_shape[2],
        "embed_dim": c.width,
        "depth": c.depth,
        "num_heads": c.num_heads,
        "mlp_ratio": _ratio(c),
        "qkv_bias": c.qkv_bias,
        "qk_norm": c.qk_norm,
        "init_values": c.layer_scale or 0.0,
        "class_token": c.has_class_token,
        "reg_tokens": c.registers,
        "no_embed_class": c.placed_prefix < c.prefix_tokens,
        "pos_embed": "learn" if c.positions == "learned1d" else "none",
        "pre_norm": c.embedding_norm,
        "global_pool": theirs_of("pooling", c.pooling, POOLS, WHERE),
        "fc_norm": c.norm_after_pooling,
        "pool_include_prefix": c.pool_include_prefix,
    }
    # where the MLP is gated, the activation is the architecture's
    return values if c.gated_mlp else values | {"act_layer": theirs_of("gelu", c.gelu, ACTIVATIONS, WHERE)}


def _ratio(c: ViTConfig) -> float:
    """Times the width, rounded down, it must be what both halves of a gated MLP have together."""
    hidden = 2 * c.mlp_dim if c.gated_mlp else c.mlp_dim
    ratio = hidden / c.width
    return ratio if int(c.width * ratio) == hidden else (hidden + 0.5) / c.width


def _crop_pct(part: float, side: int) -> float:
    """The share that timm, who rounds down, resizes to our side by."""
    resized = round(side / part)
    return part if math.floor(side / part) == resized else side / (resized + 0.5)
