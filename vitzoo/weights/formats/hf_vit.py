"""Vision Transformers as Hugging Face transformers keeps them: ViT, DINO, DeiT, MAE, DINOv2, and SigLIP's image tower.

Names are those of the published files or of transformers 5. Positions go to another grid as in its newest version:
bicubic without smoothing, without an offset; with smoothing in `Dinov2WithRegisters...`.
"""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.hf_vit_dinov2 import DINOv2
from vitzoo.weights.formats.hf_vit_plain import PlainViT
from vitzoo.weights.formats.hf_vit_siglip import SigLIP
from vitzoo.weights.rows import Flat

FAMILIES = (DINOv2(), SigLIP(), PlainViT())
"""The first that takes a file or a model has it."""


class HFViT:
    """Of `ViTModel`, `DeiTModel`, `ViTMAEModel`, `Dinov2Model`, `Dinov2WithRegistersModel`, `SiglipVisionModel`,
    alone or inside another."""

    name = "hf-vit"
    model = "vit"

    def recognises(self, source: Source) -> bool:
        """By the patch embedding and the first block."""
        return any(family.recognises(source) for family in FAMILIES)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`."""
        family = next((family for family in FAMILIES if family.recognises(source)), None)
        if family is None:
            raise source.refused("has none of the names of transformers' Vision Transformers")
        return family.read(source, given)

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`. Names are those of the published files, which every version of transformers reads."""
        family = next(family for family in FAMILIES if family.takes(config))
        return family.write(config, params, description)
