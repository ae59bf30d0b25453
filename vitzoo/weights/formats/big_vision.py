"""Google's big_vision: `.npz` files of ViT, FlexiViT and SigLIP's tower of images, of all its generations."""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import google, google_rows
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.google_rows import LAYER, TABLES, Names, Parts
from vitzoo.weights.rows import Flat

WHERE = "big_vision's format"
PREFIX = "params/"
PROBE = "MAPHead_0/"


class BigVision:
    """Positions beside the encoder, without a row for the class token; average, class token or a probe."""

    name = "big_vision"
    model = "vit"
    kind = "npz"

    def recognises(self, source: Source) -> bool:
        """By the names of the first layer and of blocks."""
        return google.is_vit(source)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `google.read`."""
        return google.read(source, given, rounding="cut")

    def write(self, config: ViTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        known = {"poolings": ("cls", "gap", "map"), "positions": ("learned1d", "sincos2d")}
        google_rows.check(config, WHERE, placed="none", **known)
        names = Names(
            block=Parts.linen(LAYER, 2),
            table=TABLES[2] if config.positions == "learned1d" else "",
            probe=f"{PROBE}probe",
            pool=Parts.linen(PROBE, 1) if config.pooling == "map" else None,
        )
        return Writing(((PREFIX + name, array) for name, array in google_rows.write(names, config, params)), {})
