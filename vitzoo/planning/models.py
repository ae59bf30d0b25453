"""The table of `vitzoo models`: what each variant holds and costs, from shapes alone."""

import dataclasses
import fnmatch
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from vitzoo import parts
from vitzoo.errors import Refused
from vitzoo.models.encoder_decoder import EncoderDecoder
from vitzoo.models.geometry import ImageGeometry
from vitzoo.nn import state
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.planning import flops

TEXT_LENGTH = 512
"""Tokens of a source and of a target, and of a text where the model has no length of its own."""

VOCABULARY = {"transformer": 37_000}
"""Ids where a variant leaves them to the tokenizer: the paper's English-German; GPT-2's for the rest."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One variant.

    Args:
        parameters: of the whole model.
        gflops: matrix products of a forward pass, in 1e9; multiply and add are two.
    """

    name: str
    variant: str
    parameters: int
    gflops: float

    @property
    def bytes_float32(self) -> int:
        """Memory of the parameters."""
        return 4 * self.parameters

    def to_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return dataclasses.asdict(self) | {"bytes_float32": self.bytes_float32}


@dataclasses.dataclass(frozen=True)
class ImageRow(Row):
    """A variant of an image model: `parameters` with class token and 1000 classes, at 224 x 224 pixels; `gflops` of the
    body for one such image.

    Args:
        body_parameters: as published tables count: no class token, no pooling head, no class head.
        gflops_384: for 384 x 384 pixels, patches that don't fit left out.
    """

    body_parameters: int
    gflops_384: float


@dataclasses.dataclass(frozen=True)
class TextRow(Row):
    """A variant of a text model: `parameters` without a BERT's heads, as published; `gflops` for one text.

    Args:
        tokens: of the text: the model's context length; of the target, where a source is read first.
        source_tokens: of the source; 0 where the model reads none.
    """

    tokens: int
    source_tokens: int


def table(pattern: str = "*") -> list[Row]:
    """The published variants of every model whose `name` or `variant` fits the pattern (`vit`, `B/*`, `gpt2-*`).

    Raises:
        Refused: nothing fits.
    """
    every = [(name, variant) for name in parts.PARTS["model"] for variant in _model(name).PUBLISHED]
    chosen = [pair for pair in every if any(fnmatch.fnmatchcase(text, pattern) for text in pair)]
    if not chosen:
        raise Refused("pattern", pattern, f"no such model; there are {', '.join(v for _, v in every)}")
    return [row(name, variant) for name, variant in chosen]


def row(name: str, variant: str) -> Row:
    """What one variant holds and costs; any variant, published or not."""
    model = _model(name)
    return (_image_row if issubclass(model.Config, ImageGeometry) else _text_row)(name, model, variant)


def parameters(shapes: state.Params) -> int:
    """Number of parameters in a nested dict of shapes."""
    return sum(math.prod(leaf.shape) for leaf in flatten(shapes).values())


def forward_flops(model: tuple[Any, state.Params], *inputs: jax.ShapeDtypeStruct) -> int:
    """Operations in the matrix products of a model's forward pass.

    Args:
        model: from `nn.state.abstract`.
        inputs: what it is called with.
    """
    graph, shapes = model
    return flops.count(lambda params, *inputs: state.merge(graph, params)(*inputs), shapes, *inputs)


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
        config = dataclasses.replace(config, vocabulary_size=VOCABULARY.get(name, 50_257))
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
    return parts.find("model", name)


def _abstract(model: Any, config: Any) -> tuple[Any, state.Params]:
    return state.abstract(lambda rngs: model(config, rngs=rngs, execution=Execution(derivatives="plain")))


def _size(model: Any, variant: str, pixels: int) -> tuple[int, int]:
    """The largest image within `pixels` that divides into patches."""
    height, width = model.Config.from_variant(variant).patch_shape
    return pixels // height * height, pixels // width * width
