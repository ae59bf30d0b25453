"""How the parameters of a model fit another image size, number of channels or kind of pooling of the same model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.models.resizing import resize_positions
from vitzoo.nn.paths import flatten, unflatten

Flat = dict[str, np.ndarray]
Note = Callable[[str, str, str], None]
"""Called with kind (resized or adapted), path and text for each leaf that changes."""


def adapt(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """The parameters, flat, between two Configs; what doesn't need to change stays the same array."""
    if not hasattr(old, "grid"):  # of images only
        return params
    params = other_grid(params, old, new, note)
    params = class_token_row(params, old, new, note)
    return patch_channels(params, old, new, note)


def other_grid(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """Positions on another grid of patches."""
    if old.grid == new.grid or old.positions != new.positions:
        return params
    resized = flatten(resize_positions(unflatten(params), old, new))
    (a, b), (c, d) = old.grid, new.grid
    for path in params:
        if resized[path] is not params[path]:
            note("resized", path, f"{a}×{b} → {c}×{d} patches ({new.position_resize})")
    return resized


def class_token_row(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """The first row of a 1-D table, which is the class token's: left out or made zero where that comes or goes."""
    table = params.get("positions/embedding")
    if table is None or old.positions != new.positions or old.has_class_token == new.has_class_token:
        return params
    if old.has_class_token:
        note("adapted", "positions/embedding", "without the class token's row")
        return {**params, "positions/embedding": table[:, 1:]}
    note("adapted", "positions/embedding", "with a row of zeros for the class token")
    return {**params, "positions/embedding": np.concatenate([np.zeros_like(table[:, :1]), table], axis=1)}


def patch_channels(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """The patch embedding [rows, columns, channels, width] for another number of channels.

    RGB to grey sums over the channels and grey to RGB gives each a third, so that a grey image has the same response
    before and after, repeated over three channels or not.
    """
    path = "patch_embedding/kernel"
    before, after = old.channels or 3, new.channels or 3
    if before == after or path not in params:
        return params
    kernel = params[path]
    if (before, after) == (3, 1):
        note("adapted", path, "3 → 1 channels, summed")
        return {**params, path: kernel.sum(axis=2, keepdims=True)}
    if (before, after) == (1, 3):
        note("adapted", path, "1 → 3 channels, a third each")
        return {**params, path: np.repeat(kernel / 3, 3, axis=2)}
    raise Refused(
        "model.channels", after, f"can't be made from the checkpoint's {before}; only 1 and 3 from each other"
    )
