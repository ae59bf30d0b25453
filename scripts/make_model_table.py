"""Makes `vitzoo/planning/variants.json` anew, the numbers that `vitzoo models` shows; takes half a minute.

What a variant holds and costs is counted from shapes alone: nothing is allocated or computed.
"""

import dataclasses
import functools
import json
import math
from typing import Any

import jax
import jax.numpy as jnp

from vitzoo import registry
from vitzoo.models.encoder_decoder import EncoderDecoder
from vitzoo.models.geometry import ImageGeometry
from vitzoo.models.text import usual_vocabulary
from vitzoo.nn import state
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.planning import jaxprs, models
from vitzoo.planning.models import ImageRow, TextRow, VariantRow

TEXT_LENGTH = 512
"""Tokens of a source and of a target, and of a text where the model has no length of its own."""


def published() -> list[VariantRow]:
    """The published variants of every model: by model, then by family, then by size."""
    rows = []
    for name in registry.PARTS["model"]:
        variants = _model(name).PUBLISHED
        families = list(dict.fromkeys(map(family, variants)))
        own = [row(name, variant) for variant in variants]
        rows += sorted(own, key=lambda row: (families.index(family(row.variant)), row.parameters))
    return rows


def family(variant: str) -> str:
    """What comes before a variant's size: `gpt2` of `gpt2-124M`; nothing of `B/16`."""
    return variant.partition("-")[0] if "-" in variant else ""


def row(name: str, variant: str) -> VariantRow:
    """What one variant holds and costs; any variant, published or not."""
    model = _model(name)
    return (_image_row if issubclass(model.Config, ImageGeometry) else _text_row)(name, model, variant)


def parameters(shapes: state.Shapes) -> int:
    """Number of parameters in a nested dict of shapes."""
    return sum(math.prod(leaf.shape) for leaf in flatten(shapes).values())


def forward_flops(model: tuple[Any, state.Shapes], *inputs: jax.ShapeDtypeStruct) -> int:
    """Operations in the matrix products of a model's forward pass.

    Args:
        model: from `nn.state.abstract`.
        inputs: what it is called with.
    """
    graph, shapes = model
    return jaxprs.count_flops(lambda params, *inputs: state.merge(graph, params)(*inputs), shapes, *inputs)


def _image_row(name: str, model: Any, variant: str) -> ImageRow:
    whole = model.Config.from_variant(variant, image_size=_size(model, variant, 224), num_classes=1000)
    small, large = (_body(model, variant, pixels) for pixels in (224, 384))
    shapes = _abstract(model, small)
    return ImageRow(
        name,
        variant,
        parameters(_abstract(model, whole)[1]),
        forward_flops(shapes, _image(small)) / 1e9,
        parameters(shapes[1]),
        forward_flops(_abstract(model, large), _image(large)) / 1e9,
    )


def _text_row(name: str, model: Any, variant: str) -> TextRow:
    config = model.Config.from_variant(variant)
    if config.vocabulary_size is None:
        config = dataclasses.replace(config, vocabulary_size=usual_vocabulary(config))
    if hasattr(config, "head"):
        config = dataclasses.replace(config, head="none")
    tokens = getattr(config, "context_length", TEXT_LENGTH)
    source = TEXT_LENGTH if issubclass(model, EncoderDecoder) else 0
    return TextRow(name, variant, *_text_cost(model, config, tokens, source), tokens, source)


@functools.cache  # flan's sizes are those of T5 v1.1
def _text_cost(model: Any, config: Any, tokens: int, source: int) -> tuple[int, float]:
    """Parameters and GFLOPs."""
    shapes = _abstract(model, config)
    inputs = [jax.ShapeDtypeStruct((1, length), jnp.int32) for length in (source, tokens) if length]
    return parameters(shapes[1]), forward_flops(shapes, *inputs) / 1e9


def _image(config: ImageGeometry) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((1, *config.image_shape), jnp.float32)


def _body(model: Any, variant: str, pixels: int) -> Any:
    return model.Config.from_variant(variant, image_size=_size(model, variant, pixels), pooling="gap", num_classes=0)


def _model(name: str) -> Any:
    return registry.find("model", name)


def _abstract(model: Any, config: Any) -> tuple[Any, state.Shapes]:
    return state.abstract(lambda rngs: model(config, rngs=rngs, execution=Execution(custom_gradient=False)))


def _size(model: Any, variant: str, pixels: int) -> tuple[int, int]:
    """The largest image within `pixels` that divides into patches."""
    height, width = model.Config.from_variant(variant).patch_shape
    return pixels // height * height, pixels // width * width


def main() -> None:
    """Counts every published variant and writes one line for each."""
    rows = [json.dumps(dataclasses.asdict(row)) for row in published()]
    models.KEPT.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
