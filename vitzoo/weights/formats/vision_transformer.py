"""Google's vision_transformer: the `.npz` files of the ViT paper (2020) and of AugReg (2021)."""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import google, google_rows
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.google_rows import LAYER, TABLES, Names, Parts
from vitzoo.weights.rows import Flat

WHERE = "vision_transformer's format"
BLOCK = Parts(
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
        return google.is_vit(source) and TABLES[0] in source.tensors

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `google.read`."""
        return google.read(source, given, rounding="none")

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        google_rows.check(config, WHERE, poolings=("cls", "gap"), positions=("learned1d",), placed="class")
        return Writing(google_rows.write(Names(BLOCK, TABLES[0]), config, params), {})
