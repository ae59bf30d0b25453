"""What timm's names of architectures say of a ViT beyond its shapes: `config.json` holds little more than the name."""

import re
from collections.abc import Mapping
from typing import Any

from vitzoo.weights.files.source import Source, shown
from vitzoo.weights.formats.settings import give, heads_that
from vitzoo.weights.formats.vit_common import num_heads

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
    source: Source, name: str, arguments: Mapping[str, Any], given: Mapping[str, Any], width: int
) -> tuple[dict[str, Any], list[str]]:
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
    found = {
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


def _check(source: Source, name: str, arguments: Mapping[str, Any]) -> None:
    words = name.removeprefix("test_").split("_") if name else []
    known = (*SIZES, *KINDS, *(("vit2", "vit3") if name.startswith("test_") else ()))
    strange = [word for word in words if word not in known and not re.fullmatch(r"(patch|reg)?\d+", word)]
    if strange:
        raise source.refused(f"is of the architecture {shown(name)}, which isn't a plain ViT ({shown(strange[0])})")
    handled = (*FROM_SHAPES, *WITHOUT_EFFECT, "num_heads", "act_layer", "global_pool", "pool_include_prefix")
    for argument, value in arguments.items():
        if argument not in handled:
            raise source.refused(f"config.json has model_args.{argument} = {shown(value)}, which has no place here")


def _heads(
    source: Source, name: str, arguments: Mapping[str, Any], given: Mapping[str, Any], width: int
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


def _gelu(source: Source, name: str, arguments: Mapping[str, Any]) -> str:
    stated = arguments.get("act_layer")
    if stated is not None and (not isinstance(stated, str) or stated not in ACTIVATIONS):
        raise source.refused(f"config.json has act_layer = {shown(stated)}; known: {', '.join(ACTIVATIONS)}")
    if stated is not None:
        return ACTIVATIONS[stated]
    if any(re.fullmatch(pattern, name) for pattern in TANH):
        return "tanh"
    return "quick" if "quickgelu" in name else "exact"
