"""Vision Transformers of two packages of torch, whose files say little of them.

torchvision's VisionTransformer: `vit_b_16`, `vit_b_32`, `vit_l_16`, `vit_l_32`, `vit_h_14`.

`ViT` and `SimpleViT` of vit-pytorch, as its versions from 1.0 on keep them: norms before and after the patch embedding,
no biases of queries, keys and values, heads of any size, epsilon 1e-5, exact GELU. Their files say neither heads nor,
of `SimpleViT`, the image's size: `num_heads` and `image_size` must be given.
"""

import dataclasses
from typing import Any

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.models.base import Flat
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats.registry import Given, Reading, Writing
from vitzoo.weights.formats.settings import give, heads_that, must_be
from vitzoo.weights.formats.vit_common import (
    BLOCKS,
    IMAGENET,
    PLAINER,
    SIZES,
    Leaves,
    Size,
    check_square,
    num_heads,
    table_of,
)
from vitzoo.weights.mapping import Ignored, Layout, NameMap, block, reshaped

WHERE = "torchvision's VisionTransformer"
BLOCK = "encoder.layers.encoder_layer_{i}"
FIRST = BLOCK.format(i=0)
FIXED: dict[str, Any] = {"gelu": "exact", "norm_epsilon": 1e-6}
PLAIN = (
    PLAINER
    | FIXED
    | {
        "pooling": "cls",
        "positions": "learned1d",
        "prefix_positions": "class",
        "head_dim": None,
    }
)
"""Settings that have one value there."""


class TorchvisionViT:
    """Of `torchvision.models.VisionTransformer`, with the MLP's names of any version."""

    name = "torchvision-vit"
    model = "vit"

    def recognises(self, source: Weights) -> bool:
        """By the class token and the first layer's norm."""
        wanted = ("class_token", "encoder.pos_embedding", f"{FIRST}.ln_1.weight")
        return all(name in source.tensors for name in wanted)

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`. Heads are those of the published sizes."""
        if "conv_proj.weight" not in source.tensors:
            raise source.refused("has no conv_proj.weight: a stem of several convolutions has no place here")
        names = _torchvision_names(f"{FIRST}.mlp.linear_1.weight" in source.tensors)
        found = Leaves(source, names).fields(*SIZES, "pre_logits")
        width, patch = found["width"], found["patch_size"]
        heads, note = num_heads(source, given, width)
        rows = source.shape("encoder.pos_embedding", 3)[1]
        size, _ = table_of(source, rows, patch, [("class", 1)], [], given)
        more = {"num_heads": heads, "image_size": size, "position_resize": "corner_bicubic"}
        preprocessing, told = _preprocessing(size[0], width, patch[0])
        return Reading(
            model={"name": "vit", **FIXED, **found, **more},
            names=names,
            preprocessing=preprocessing,
            notes=tuple(filter(None, (note, told))),
        )

    def write(
        self, config: ViTConfig, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
        """See `Writer.write`. There is no config: the model's arguments are those of the call in torchvision."""
        must_be(config, PLAIN, WHERE)
        check_square(config.grid, WHERE)
        return Writing(_torchvision_names(False).write(params), {})


def _preprocessing(side: int, width: int, patch: int) -> tuple[dict[str, Any], str]:
    """The published weights' own; those trained at other sizes than 224 resize to the size itself."""
    resized = side if side != 224 else 242 if (width, patch) == (1024, 16) else 256
    interpolation = "bilinear" if side == 224 else "bicubic"
    fields = {"resize": "short_side_crop", "interpolation": interpolation, "crop_fraction": side / resized}
    fields |= {"crop_offset": "half_even", **IMAGENET}
    return fields, f"preprocessing as of torchvision's weights of this size: {interpolation} to {resized}, crop {side}"


def _torchvision_names(old_mlp: bool) -> NameMap:
    """The names; `old_mlp` are the MLP's before torchvision 0.13."""
    up, down = ("linear_1", "linear_2") if old_mlp else ("0", "3")
    inside = {
        "norm1": "ln_1",
        "attention/query|key|value/kernel": "self_attention.in_proj_weight",
        "attention/query|key|value/bias": "self_attention.in_proj_bias",
        "attention/out": "self_attention.out_proj",
        "norm2": "ln_2",
        "mlp/up": f"mlp.{up}",
        "mlp/down": f"mlp.{down}",
    }
    return NameMap(
        {
            "patch_embedding": "conv_proj",
            "class_token": "class_token",
            "positions/embedding": "encoder.pos_embedding",
            **block(BLOCKS, BLOCK, inside),
            "encoder/norm": "encoder.ln",
            "pre_logits": "heads.pre_logits",
            "head": "heads.head",
        }
    )


EMBEDDING = "to_patch_embedding"
LAYER, FIRST_LAYER = "transformer.layers.{i}", "transformer.layers.0"
VIT_PYTORCH: dict[str, Any] = {"patch_norms": True, "qkv_bias": False, "gelu": "exact", "norm_epsilon": 1e-5}
HEADS = ("mlp_head.1", "mlp_head", "linear_head.1", "linear_head")
"""The class head's layer: in a sequence with a norm before it, or alone."""


@dataclasses.dataclass(frozen=True)
class Names:
    """Of one of the two models, in one of the versions; of a block what follows its number.

    Attributes:
        simple: it is a `SimpleViT`.
        wrapped: norms stand around attention and MLP, not in them (`ViT` before 1.4).
        head: the class head's layer; "" without.
    """

    simple: bool
    wrapped: bool
    head: str

    @property
    def attention(self) -> str:
        """The layers of attention."""
        return "0.fn" if self.wrapped else "0"

    @property
    def norm2(self) -> str:
        """The norm before the MLP."""
        return "1.norm" if self.wrapped else "1.net.0"

    @property
    def mlp(self) -> tuple[str, str]:
        """Its two layers, between which `ViT` has dropout."""
        if self.wrapped:
            return "1.fn.net.0", "1.fn.net.3"
        return "1.net.1", "1.net.3" if self.simple else "1.net.4"


class VitPytorch:
    """Of the two plain models; the package's others have other names."""

    name = "vit-pytorch"
    model = "vit"

    def recognises(self, source: Weights) -> bool:
        """By the patch embedding's layers and the first attention."""
        attention = any(f"{FIRST_LAYER}.{path}.to_qkv.weight" in source.tensors for path in ("0", "0.fn"))
        return attention and all(f"{EMBEDDING}.{layer}.weight" in source.tensors for layer in (1, 2))

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`."""
        names = _names(source)
        width, pixels = source.shape(f"{EMBEDDING}.2.weight", 2)
        patch, channels = _patch(source, pixels, given)
        inner = source.shape(f"{FIRST_LAYER}.{names.attention}.to_qkv.weight", 2)[0] // 3
        if "num_heads" not in given:
            raise source.refused(
                f"has heads of {inner} numbers together; it doesn't say num_heads: {give('num_heads')}"
            )
        heads, found = heads_that(source, None, "", given, inner), _name_map(source, names, (*patch, channels))
        fields = VIT_PYTORCH | {
            "patch_size": patch,
            "width": width,
            **Leaves(source, found).fields("depth", "mlp_dim", "num_classes"),
            "num_heads": heads,
            "head_dim": inner // heads,
            "channels": channels,
            "out_bias": not names.simple,
            "norm_after_pooling": "transformer.norm.weight" not in source.tensors,
            "position_resize": "bicubic",
        }
        more, notes = _of_simple(source, given) if names.simple else _of_tables(source, given, patch)
        fields |= more
        return Reading(
            model={"name": "vit", **fields},
            names=found,
            ignored=(Ignored("cls_token", "it has no rows"),),
            notes=("preprocessing isn't known of these files: pixels are taken to -1..1", *notes),
        )


def _names(source: Weights) -> Names:
    return Names(
        simple="pos_embedding" not in source.tensors,
        wrapped=f"{FIRST_LAYER}.0.fn.to_qkv.weight" in source.tensors,
        head=next((name for name in HEADS if f"{name}.weight" in source.tensors), ""),
    )


def _patch(source: Weights, pixels: int, given: Given) -> tuple[Size, int]:
    """Patch and channels of a row of so many pixels: given, or of a square patch of three channels or one."""
    stated, channels = given.get("patch_size"), given.get("channels")
    if stated is not None:
        patch = (stated, stated) if isinstance(stated, int) else stated
        if pixels % (patch[0] * patch[1]) == 0:
            return patch, pixels // (patch[0] * patch[1])
    for count in (channels,) if channels else (3, 1):
        side = round((pixels // count) ** 0.5)
        if side * side * count == pixels:
            return (side, side), count
    raise source.refused(f"has patches of {pixels} numbers, which are no square: {give('patch_size')}")


def _of_simple(source: Weights, given: Given) -> tuple[dict[str, Any], list[str]]:
    if "image_size" not in given:
        raise source.refused(f"is a SimpleViT, which doesn't say image_size: {give('image_size')}")
    return {"pooling": "gap", "positions": "sincos2d", "image_size": given["image_size"]}, []


def _of_tables(source: Weights, given: Given, patch: Size) -> tuple[dict[str, Any], list[str]]:
    """A `ViT`. Where its tables have three dimensions, a class token is there whatever the pooling."""
    token, rows = _table_shape(source, "cls_token"), _table_shape(source, "pos_embedding")[-2]
    count, old = token[-2], len(token) == 3
    size, _ = table_of(source, rows, patch, [("class", count)], [], given)
    mean = given.get("pooling") == "gap" if old else count == 0
    fields = {
        "image_size": size,
        "pooling": "gap" if mean else "cls",
        "class_token": count > 0,
        "pool_include_prefix": mean and count > 0,
    }
    return fields, ["pooling isn't said: taken as cls; give pooling=gap for pool='mean'"] if old and not mean else []


def _name_map(source: Weights, names: Names, pixels: tuple[int, int, int]) -> NameMap:
    """The names, and the layout of patches of `pixels` (rows, columns, channels), which are torch's Linear [width, rows
    · columns · channels], and of tables with a leading dimension of one, which newer versions leave out.
    """
    up, down = names.mlp
    inside = {
        "norm1": "0.norm",
        "attention/query|key|value": f"{names.attention}.to_qkv",
        "attention/out": f"{names.attention}.to_out" + ("" if names.simple else ".0"),
        "norm2": names.norm2,
        "mlp/up": up,
        "mlp/down": down,
    }
    tables = {"class_token": "cls_token", "positions/embedding": "pos_embedding"}
    found = {
        "patch_embedding/input_norm": f"{EMBEDDING}.1",
        "patch_embedding": f"{EMBEDDING}.2",
        "patch_embedding/output_norm": f"{EMBEDDING}.3",
        **tables,
        **block(BLOCKS, LAYER, inside),
        "encoder/norm": "transformer.norm",
        "head_norm": names.head.replace(".1", ".0"),
        "head": names.head,
    }
    patches = Layout(lambda x: (x.T.reshape(*pixels, -1),), lambda x: x.reshape(-1, x.shape[-1]).T, 2)

    def layout(path: str, shape: tuple[int, ...]) -> Layout | None:
        if path not in tables:
            return patches if path == "patch_embedding/kernel" else None
        stated = _table_shape(source, tables[path])
        return reshaped(stated, (1, *stated[-2:]))

    return NameMap(found, layouts=layout)


def _table_shape(source: Weights, name: str) -> tuple[int, ...]:
    shape = source.shape(name, empty=True)
    if len(shape) != 2 and (len(shape) != 3 or shape[0] != 1):
        raise source.refused(f"has {name} of shape {shape}, where [rows, width] or [1, rows, width] is right")
    return shape
