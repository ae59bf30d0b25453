"""The table of `vitzoo models`: what each variant holds and costs, from shapes alone."""

import dataclasses
import fnmatch
import math
from typing import Any

import jax
import jax.numpy as jnp

from vitzoo import parts
from vitzoo.errors import Refused
from vitzoo.nn import state
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.planning import flops


@dataclasses.dataclass(frozen=True)
class Row:
    """One variant.

    Args:
        parameters: with class token and 1000 classes, at 224 x 224 pixels.
        body_parameters: as published tables count: no class token, no pooling head, no class head.
        gflops: matrix products of the body for one image of 224 x 224 pixels, in 1e9; multiply and add are two.
        gflops_384: the same for 384 x 384 pixels, patches that don't fit left out.
    """

    name: str
    variant: str
    parameters: int
    body_parameters: int
    gflops: float
    gflops_384: float

    @property
    def bytes_float32(self) -> int:
        """Memory of the parameters."""
        return 4 * self.parameters

    def to_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return dataclasses.asdict(self) | {"bytes_float32": self.bytes_float32}


def table(pattern: str = "*") -> list[Row]:
    """The published variants of every model whose `name` or `variant` fits the pattern (`vit`, `B/*`, `*/16`).

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
    whole = model.Config.from_variant(variant, image_size=_size(model, variant, 224), num_classes=1000)
    small, large = (_body(model, variant, pixels) for pixels in (224, 384))
    shapes = _abstract(model, small)
    return Row(
        name,
        variant,
        parameters(_abstract(model, whole)[1]),
        parameters(shapes[1]),
        forward_flops(shapes, small.image_shape) / 1e9,
        forward_flops(_abstract(model, large), large.image_shape) / 1e9,
    )


def parameters(shapes: state.Params) -> int:
    """Number of parameters in a nested dict of shapes."""
    return sum(math.prod(leaf.shape) for leaf in flatten(shapes).values())


def forward_flops(model: tuple[Any, state.Params], image: tuple[int, int, int]) -> int:
    """Operations in the matrix products of a model's forward pass over one image.

    Args:
        model: from `nn.state.abstract`.
        image: height, width, channels.
    """
    graph, shapes = model
    images = jax.ShapeDtypeStruct((1, *image), jnp.float32)
    return flops.count(lambda params, images: state.merge(graph, params)(images), shapes, images)


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
