"""How a model's parameters fit another image or patch size, number of channels or kind of pooling of the same model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.models.resizing import resize_patches, resize_positions
from vitzoo.nn.paths import flatten, unflatten

Flat = dict[str, np.ndarray]
Note = Callable[[str, str, str], None]
"""Called with kind (resized or adapted), path and text for each leaf that changes."""


def adapt(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """The parameters, flat, between two Configs; what doesn't need to change stays the same array."""
    if not hasattr(old, "grid"):  # of images only
        return params
    params = other_grid(params, old, new, note)
    params = prefix_rows(params, old, new, note)
    params = patch_pixels(params, old, new, note)
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


def prefix_rows(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """The first rows of a 1-D table, of tokens before the patches: left out or made zero where these come or go."""
    path = "positions/embedding"
    if path not in params or old.positions != new.positions or _placed(old) == _placed(new):
        return params
    table, before, after = params[path], _placed(old), _placed(new)
    zeros = np.zeros_like(table[:, :1])
    rows = [table[:, [before.index(token)]] if token in before else zeros for token in after]
    for token in [token for token in before if token not in after]:
        note("adapted", path, f"without the {token}'s row")
    for token in [token for token in after if token not in before]:
        note("adapted", path, f"with a row of zeros for the {token}")
    return {**params, path: np.concatenate([*rows, table[:, len(before) :]], axis=1)}


def _placed(config: Any) -> list[str]:
    """The tokens before the patches that have rows, in their order."""
    tokens = ["class token"] if config.has_class_token else []
    tokens += ["distillation token"] if config.distilled != "none" else []
    return [*tokens, *(f"register {index}" for index in range(config.registers))][: config.placed_prefix]


def patch_pixels(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """The patch embedding [rows, columns, channels, width] for patches of another size."""
    path = "patch_embedding/kernel"
    if path not in params or old.patch_shape == new.patch_shape:
        return params
    (a, b), (c, d) = old.patch_shape, new.patch_shape
    if "patch_embedding/input_norm/scale" in params:
        message = f"can't change under patch_norms: the checkpoint's is {a}×{b}"
        raise Refused("model.patch_size", new.patch_size, message)
    note("resized", path, f"{a}×{b} → {c}×{d} pixels (pseudo-inverse of bilinear)")
    return {**params, path: resize_patches(params[path], new.patch_shape)}


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
