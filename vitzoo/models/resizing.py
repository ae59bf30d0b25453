"""A ViT's parameters for another image or patch size: its positions go to the new grid."""

from typing import TYPE_CHECKING, Any

from vitzoo.nn.paths import flatten, unflatten
from vitzoo.nn.positions import resize_axis, resize_table
from vitzoo.nn.relative import resize_bias, resize_embedding

if TYPE_CHECKING:
    from vitzoo.models.vit import Config


def resize_positions(params: dict[str, Any], old: "Config", new: "Config") -> dict[str, Any]:
    """NumPy parameters of a model with config `old`, their positions fitted to the grid of `new` by `new`'s method.

    Where the grids are equal they are given back as they are. Fixed and rotary positions hold no parameters.
    """
    if old.grid == new.grid:
        return params
    flat = flatten(params)
    return unflatten({path: _resized(path, leaf, old, new) for path, leaf in flat.items()})


def _resized(path: str, leaf: Any, old: "Config", new: "Config") -> Any:
    method, antialias = new.position_resize, new.position_antialias
    match path.split("/"):
        case ["positions", "embedding"]:
            return resize_table(leaf, old.grid, new.grid, int(old.has_class_token), method, antialias)
        case ["positions", "x"]:
            return resize_axis(leaf, new.grid[1], 0, method, antialias).astype(leaf.dtype)
        case ["positions", "y"]:
            return resize_axis(leaf, new.grid[0], 0, method, antialias).astype(leaf.dtype)
        case [*_, "relative", "table"]:
            return resize_bias(leaf, new.grid, method)
        case [*_, "relative", "embedding"]:
            return resize_embedding(leaf, new.patches, method)
    return leaf
