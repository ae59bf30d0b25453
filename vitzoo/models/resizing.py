"""A ViT's parameters for another image or patch size: positions fitted to the grid, patch embedding to the patch."""

from typing import TYPE_CHECKING, Any

import numpy as np

from vitzoo.nn.paths import flatten, unflatten
from vitzoo.nn.positions import resize_axis, resize_table, resize_weights
from vitzoo.nn.relative import resize_bias, resize_embedding

if TYPE_CHECKING:
    from vitzoo.models.vit_config import ViTConfig as Config


def resize_positions(params: dict[str, Any], old: "Config", new: "Config") -> dict[str, Any]:
    """NumPy parameters of a model with config `old`, their positions fitted to the grid of `new` by `new`'s method.

    Where the grids are equal they are given back as they are. Fixed and rotary positions hold no parameters.
    """
    if old.grid == new.grid:
        return params
    flat = flatten(params)
    return unflatten({path: _resized(path, leaf, old, new) for path, leaf in flat.items()})


def _resized(path: str, leaf: Any, old: "Config", new: "Config") -> Any:
    method, antialias, offset = new.position_resize, new.position_antialias, new.position_offset
    match path.split("/"):
        case ["positions", "embedding"]:
            return resize_table(leaf, old.grid, new.grid, old.placed_prefix, method, antialias, offset)
        case ["positions", "x"]:
            return resize_axis(leaf, new.grid[1], 0, method, antialias, offset).astype(leaf.dtype)
        case ["positions", "y"]:
            return resize_axis(leaf, new.grid[0], 0, method, antialias, offset).astype(leaf.dtype)
        case [*_, "relative", "table"]:
            return resize_bias(leaf, new.grid, method, antialias)
        case [*_, "relative", "embedding"]:
            return resize_embedding(leaf, new.patches, method, antialias)
    return leaf


def resize_patches(kernel: np.ndarray, patch: tuple[int, int]) -> np.ndarray:
    """A patch embedding for patches of another size, by the pseudo-inverse of resizing (https://arxiv.org/abs/2212.08013).

    A larger patch that is a smaller one resized (bilinear, without antialias) gets the very token that the smaller one
    had. A smaller patch gets the nearest token in the mean over patches of white noise.

    Args:
        kernel: [rows, columns, channels, width].
        patch: rows and columns wanted.
    """
    down, right = (_inverse(old, new) for old, new in zip(kernel.shape[:2], patch, strict=True))
    return np.einsum("Rr,Cc,rcik->RCik", down, right, kernel, optimize=True).astype(kernel.dtype)


def _inverse(old: int, new: int) -> np.ndarray:
    # the pseudo-inverse of both axes' Kronecker product is that of the pseudo-inverses
    return np.linalg.pinv(resize_weights(old, new, "bilinear").T)
