"""Vision Transformers as Hugging Face transformers keeps them: ViT, DINO (a ViT there), DeiT, MAE, and DINOv2 with and
without registers.

Names are those of the published files or of transformers 5. Positions go to another grid as in its newest version:
bicubic without smoothing, without an offset; with smoothing in `Dinov2WithRegisters...`.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.models.vit_config import ViTConfig
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.hf_siglip import SigLIP
from vitzoo.weights.formats.hf_vit_config import DROPOUTS, as_table, body, reading, written
from vitzoo.weights.formats.registry import Given, Reading, Writing, type_of, what_it_says
from vitzoo.weights.formats.settings import written_labels
from vitzoo.weights.formats.vit_common import BLOCKS, PLAIN, Leaves
from vitzoo.weights.mapping import Ignored, NameMap, block

STACKS = ("encoder.layer", "layers")
PARTS = {
    "norm1": ("layernorm_before", "norm1"),
    "query": ("attention.attention.query", "attention.q_proj"),
    "key": ("attention.attention.key", "attention.k_proj"),
    "value": ("attention.attention.value", "attention.v_proj"),
    "out": ("attention.output.dense", "attention.o_proj"),
    "norm2": ("layernorm_after", "norm2"),
    "up": ("intermediate.dense", "mlp.fc1", "mlp.weights_in", "mlp.up_proj"),
    "down": ("output.dense", "mlp.fc2", "mlp.weights_out", "mlp.down_proj"),
}
"""Layers of a block, and how they may be called. `weights_in` holds `gate_proj` and `up_proj`."""
GATE, TOGETHER = "mlp.gate_proj", "mlp.weights_in"
PATCH = "embeddings.patch_embeddings.projection"
TABLE, REGISTERS = "embeddings.position_embeddings", "embeddings.register_tokens"


def has_body(source: Weights, prefixes: tuple[str, ...], part: str) -> str | None:
    """The prefix of the body, if there is one whose first block has a layer of this name."""
    for prefix in prefixes:
        first = any(f"{prefix}{stack}.0.{part}.weight" in source.tensors for stack in STACKS)
        if first and f"{prefix}{PATCH}.weight" in source.tensors and f"{prefix}embeddings.cls_token" in source.tensors:
            return prefix
    return None


def names_in(source: Weights, prefix: str, **heads: str) -> NameMap:
    """The names that a file has; for what isn't there those of the published files. For `heads` see `name_map`."""
    stack = next((s for s in STACKS if any(name.startswith(f"{prefix}{s}.0.") for name in source.tensors)), STACKS[0])

    def found(candidates: tuple[str, ...]) -> str:
        there = (name for name in candidates if f"{prefix}{stack}.0.{name}.weight" in source.tensors)
        return next(there, candidates[0])

    return name_map(prefix, {part: found(candidates) for part, candidates in PARTS.items()}, stack, **heads)


def name_map(prefix: str, parts: Mapping[str, str], stack: str = STACKS[0], **heads: str) -> NameMap:
    """The names of all that a model may have.

    Args:
        prefix: before every name of the body.
        parts: each layer of a block → its name.
        stack: of the blocks; their number follows.
        heads: our layers after the body → theirs.
    """
    together = parts["up"] == TOGETHER
    mlp = {"mlp/gate|up": TOGETHER} if together else {"mlp/gate": GATE, "mlp/up": parts["up"]}
    inside = {
        "norm1": parts["norm1"],
        **{f"attention/{part}": parts[part] for part in ("query", "key", "value", "out")},
        "norm2": parts["norm2"],
        **mlp,
        "mlp/down": parts["down"],
        **{f"scale{n}": f"layer_scale{n}.lambda1" for n in (1, 2)},
    }
    found = {
        "patch_embedding": f"{prefix}{PATCH}",
        "class_token": f"{prefix}embeddings.cls_token",
        "distillation_token": f"{prefix}embeddings.distillation_token",
        "registers": f"{prefix}{REGISTERS}",
        "positions/embedding": f"{prefix}{TABLE}",
        **block(BLOCKS, f"{prefix}{stack}.{{i}}", inside),
        "encoder/norm": f"{prefix}layernorm",
    }
    return NameMap(found | heads)


MASK = Ignored(r"(\w+[.])?embeddings[.]mask_token", "only pretraining by masked patches")
DECODER = Ignored(r"decoder[.].*", "the decoder, which only pretraining uses")
CLASSIFIERS = {"none": ("classifier",), "token": ("classifier",), "head": ("cls_classifier", "distillation_classifier")}
"""`distillation` → the layers of the heads; ours are `head` and `distillation_head`."""
UNREAD = Ignored(r"(\w+[.])?pooler[.]dense[.](weight|bias)", "a layer that the head doesn't read")
PLAIN_ONLY = {"gated_mlp": False, "layer_scale": None, "registers": 0, "pooling": "cls"}


class PlainViT:
    """Of `ViTModel`, `DeiTModel` and `ViTMAEModel`, alone or with a head or a decoder."""

    where = "transformers' ViT"
    prefixes = ("vit.", "deit.", "")
    types = ("vit", "deit", "vit_mae")

    def recognises(self, source: Weights) -> bool:
        """By the first block's norm."""
        return has_body(source, self.prefixes, PARTS["norm1"][0]) is not None

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`. A layer after the class token (`pooler`) is read where no head of classes is there."""
        settings.of_type(source, *self.types)
        prefix = has_body(source, self.prefixes, PARTS["norm1"][0]) or ""
        distilled = _distilled(source, prefix)
        stated = type_of(source)
        if stated is not None and (stated == "deit") != (distilled != "none"):
            token = "no distillation token" if distilled == "none" else "a distillation token"
            raise source.refused(f"{what_it_says(source)}, and the file has {token}")
        names = names_in(source, prefix, **_heads(distilled, prefix))
        shared, whole, notes = body(source, names, given, 1 if distilled == "none" else 2, epsilon=1e-12)
        pooler, outputs = Leaves(source, names).outputs("pre_logits"), shared["num_classes"]
        bias = Leaves(source, names).fields("qkv_bias")
        settings.only(source, {**bias, **({"pooler_act": "tanh"} if pooler else {})})
        fields = shared | {
            **bias,
            "distillation": distilled,
            "pre_logits": not outputs and pooler,
            **settings.shares(source, DROPOUTS),
        }
        if any(name.startswith("decoder.decoder_embed") for name in source.tensors):
            notes.append("MAE's encoder: nothing is masked")
        ignored = (MASK, DECODER, *((UNREAD,) if outputs else ()))
        processor = "DeiTImageProcessor" if distilled != "none" else "ViTImageProcessor"
        return reading(source, fields, whole, processor, names, ignored, notes)

    def takes(self, config: ViTConfig) -> bool:
        """All that no other takes."""
        return True

    def write(self, config: ViTConfig, params: Flat, description: Description) -> Writing:
        """See `Writer.write`."""
        settings.must_be(config, PLAIN | PLAIN_ONLY, self.where)
        outputs, distilled = config.num_classes or 0, config.distillation
        if outputs and config.pre_logits:
            raise UserError("model.pre_logits", config.pre_logits, f"has no place in {self.where} with classes")
        if distilled == "head" and not outputs:
            raise UserError("model.distillation", "head", f"has no place in {self.where} without classes")
        config, params = as_table(config, params, 1 if distilled == "none" else 2, self.where)
        family = "ViT" if distilled == "none" else "DeiT"
        kind = "Model" if not outputs else "ForImageClassification" + ("WithTeacher" if distilled == "head" else "")
        hidden = config.width if config.pre_logits is True else int(config.pre_logits)
        content = {
            "architectures": [f"{family}{kind}"],
            "model_type": family.lower(),
            **written(config, self.where),
            "qkv_bias": config.qkv_bias,
            **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
            **({"pooler_output_size": hidden} if config.pre_logits else {}),
            **written_labels(outputs, description),
        }
        prefix = f"{family.lower()}." if outputs else ""
        names = name_map(prefix, {part: names[0] for part, names in PARTS.items()}, **_heads(distilled, prefix))
        return Writing(names.write(params), content, *hf_images.written(description, self.where))


def _distilled(source: Weights, prefix: str) -> str:
    if f"{prefix}embeddings.distillation_token" not in source.tensors:
        return "none"
    return "head" if "distillation_classifier.weight" in source.tensors else "token"


def _heads(distilled: str, prefix: str) -> dict[str, str]:
    heads = zip(("head", "distillation_head"), CLASSIFIERS[distilled], strict=False)
    return {"pre_logits": f"{prefix}pooler.dense", **dict(heads)}


MULTIPLES = range(1, 65)
"""Of the width, that an MLP's size can be."""
DINOV2_ONLY: dict[str, JSON] = {"distillation": "none", "pre_logits": False}


class DINOv2:
    """Of `Dinov2Model` and `Dinov2WithRegistersModel`, alone or with a head of classes, which sees the class token
    beside the mean of the patches."""

    where = "transformers' DINOv2"
    prefixes = ("dinov2.", "dinov2_with_registers.", "")
    types = ("dinov2", "dinov2_with_registers")

    def recognises(self, source: Weights) -> bool:
        """By the first block's norm."""
        return has_body(source, self.prefixes, PARTS["norm1"][1]) is not None

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`."""
        settings.of_type(source, *self.types)
        prefix = has_body(source, self.prefixes, PARTS["norm1"][1]) or ""
        names = names_in(source, prefix, head="classifier")
        shared, whole, notes = body(source, names, given, 1, epsilon=1e-6, mlp_stated=False)
        file, outputs = Leaves(source, names), shared["num_classes"]
        found = file.fields("registers", "qkv_bias")
        count, gated = found["registers"], file.has(f"{BLOCKS}/mlp/gate/kernel")
        settings.only(source, {"qkv_bias": found["qkv_bias"], "use_swiglu_ffn": gated, "num_register_tokens": count})
        if type_of(source) == "dinov2" and count:
            raise source.refused(f"{what_it_says(source)}, and the file has registers, which it has not")
        scale = settings.value(source, "layerscale_value", 1.0, settings.is_number, "a number")
        fields = shared | {
            **found,
            "pooling": "cls_gap" if outputs else "cls",
            "gated_mlp": gated,
            "layer_scale": scale or 1.0,
            "position_antialias": count > 0,
            **settings.shares(source, DROPOUTS),
        }
        if dropped := settings.shares(source, {"drop_path": "drop_path_rate"}).get("drop_path"):
            fields |= {"drop_path": dropped, "drop_path_schedule": "uniform"}
        return reading(source, fields, whole, "BitImageProcessor", names, (MASK,), notes, any_size=True)

    def takes(self, config: ViTConfig) -> bool:
        """What has a part that only this family has."""
        return bool(
            config.layer_scale is not None or config.registers or config.gated_mlp or config.pooling == "cls_gap"
        )

    def write(self, config: ViTConfig, params: Flat, description: Description) -> Writing:
        """See `Writer.write`. A mask token of zeros, which the published files have, goes with it."""
        outputs = config.num_classes or 0
        settings.must_be(config, PLAIN | DINOV2_ONLY | {"pooling": "cls_gap" if outputs else "cls"}, self.where)
        if config.layer_scale is None:
            raise UserError("model.layer_scale", None, f"has no place in {self.where}, whose branches have factors")
        if config.grid[0] != config.grid[1] or config.image_shape[0] != config.image_shape[1]:
            raise UserError("model.image_size", config.image_size, f"has no place in {self.where}: it must be square")
        config, params = as_table(config, params, 1, self.where)
        kind = "Dinov2WithRegisters" if config.registers else "Dinov2"
        prefix = "dinov2_with_registers" if config.registers else "dinov2"
        common = written(config, self.where)
        del common["intermediate_size"]
        content = {
            "architectures": [f"{kind}{'ForImageClassification' if outputs else 'Model'}"],
            "model_type": prefix,
            **common,
            "mlp_ratio": _ratio(config),
            "qkv_bias": config.qkv_bias,
            "use_swiglu_ffn": config.gated_mlp,
            "layerscale_value": config.layer_scale,
            **({"num_register_tokens": config.registers} if config.registers else {}),
            **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
            "drop_path_rate": config.drop_path if config.drop_path_schedule == "uniform" else 0.0,
            **written_labels(outputs, description),
        }
        arrays = _dinov2_arrays(config, params, f"{prefix}." if outputs else "")
        return Writing(arrays, content, *hf_images.written(description, self.where))


def _dinov2_arrays(config: ViTConfig, params: Flat, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    """Under the names of the published files: attention as in ViT, norms and MLP of their own."""
    parts = {part: names[0] for part, names in PARTS.items()} | {"norm1": "norm1", "norm2": "norm2"}
    up, down = ("mlp.weights_in", "mlp.weights_out") if config.gated_mlp else ("mlp.fc1", "mlp.fc2")
    yield from name_map(prefix, parts | {"up": up, "down": down}, head="classifier").write(params)
    yield f"{prefix}embeddings.mask_token", np.zeros((1, config.width), np.float32)


def _ratio(config: ViTConfig) -> int:
    """How many times the width the MLP is; gated, two thirds of that, rounded up to a multiple of 8."""
    for ratio in MULTIPLES:
        hidden = config.width * ratio
        if config.mlp_dim == ((hidden * 2 // 3 + 7) // 8 * 8 if config.gated_mlp else hidden):
            return ratio
    rule = "two thirds of a multiple of the width" if config.gated_mlp else "a multiple of the width"
    raise UserError("model.mlp_dim", config.mlp_dim, f"has no place in transformers' DINOv2, where it is {rule}")


FAMILIES = (DINOv2(), SigLIP(), PlainViT())
"""The first that takes a file or a model has it."""


class HFViT:
    """Of `ViTModel`, `DeiTModel`, `ViTMAEModel`, `Dinov2Model`, `Dinov2WithRegistersModel`, `SiglipVisionModel`,
    alone or inside another."""

    name = "hf-vit"
    model = "vit"

    def recognises(self, source: Weights) -> bool:
        """By the patch embedding and the first block."""
        return any(family.recognises(source) for family in FAMILIES)

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`."""
        family = next((family for family in FAMILIES if family.recognises(source)), None)
        if family is None:
            raise source.refused("has none of the names of transformers' Vision Transformers")
        return family.read(source, given)

    def write(
        self, config: ViTConfig, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
        """See `Writer.write`. Names are those of the published files, which every version of transformers reads."""
        family = next(family for family in FAMILIES if family.takes(config))
        return family.write(config, params, description)
