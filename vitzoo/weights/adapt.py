"""How a model's parameters fit another image or patch size, number of channels or kind of pooling of the same model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from vitzoo.data.mixing import MIDDLE
from vitzoo.errors import UserError
from vitzoo.models.resizing import resize_patches, resize_positions
from vitzoo.nn.paths import flatten, unflatten

Flat = dict[str, np.ndarray]
Note = Callable[[str, str, str], None]
"""Called with kind (resized or adapted), path and text for each leaf that changes."""
Scale = tuple[np.ndarray, np.ndarray]
Scales = tuple[Scale, Scale]
PLAIN: Scale = (np.zeros((1, 1)), np.ones((1, 1)))
TINY = 1e-9
"""What sums in float64 are off by."""


def adapt(params: Flat, old: Any, new: Any, note: Note, scales: Scales | None = None) -> Flat:
    """The parameters, flat, between two Configs; what doesn't need to change stays the same array.

    `scales` are mean and deviation of pixels in both, from `scale_of`; None: they are one for all channels.
    """
    if not hasattr(old, "grid"):  # of images only
        return params
    params = other_grid(params, old, new, note)
    params = prefix_rows(params, old, new, note)
    params = patch_pixels(params, old, new, note)
    params = patch_bias(params, old, new, note)
    return patch_channels(params, old, new, scales, note)


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
    tokens += ["distillation token"] if config.distillation != "none" else []
    return [*tokens, *(f"register {index}" for index in range(config.registers))][: config.placed_prefix]


def patch_pixels(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """The patch embedding [rows, columns, channels, width] for patches of another size."""
    path = "patch_embedding/kernel"
    if path not in params or old.patch_shape == new.patch_shape:
        return params
    (a, b), (c, d) = old.patch_shape, new.patch_shape
    if "patch_embedding/input_norm/scale" in params:
        message = f"can't change under patch_norms: the checkpoint's is {a}×{b}"
        raise UserError("model.patch_size", new.patch_size, message)
    note("resized", path, f"{a}×{b} → {c}×{d} pixels (pseudo-inverse of bilinear)")
    return {**params, path: resize_patches(params[path], new.patch_shape)}


def patch_bias(params: Flat, old: Any, new: Any, note: Note) -> Flat:
    """A bias of zeros where the patch embedding had none and now has one, which changes nothing."""
    kernel, path = "patch_embedding/kernel", "patch_embedding/bias"
    if kernel not in params or path in params or not getattr(new, "patch_bias", False):
        return params
    note("new", path, "zeros")
    return {**params, path: np.zeros(params[kernel].shape[-1:], params[kernel].dtype)}


def patch_channels(params: Flat, old: Any, new: Any, scales: Scales | None, note: Note) -> Flat:
    """The patch embedding [rows, columns, channels, width] for another number of channels, 3 to 1 or 1 to 3.

    A picture without colour has the same response before and after, whether its one channel is repeated over three or
    not. A channel's mean and deviation, which differ between the two models, are folded in: of a pixel g, a kernel K
    on channels c makes sum of K_c (g - mean_c) / std_c = slope g - level. The new kernel has the slope. What is left of
    the level goes to the bias, or to the patches' positions: where there is no bias, and where patches are filled up
    after scaling, so that those at the border need another one.
    """
    path = "patch_embedding/kernel"
    before, after = old.channels or 3, new.channels or 3
    if before == after or path not in params:
        return params
    if (before, after) not in ((3, 1), (1, 3)):
        message = f"can't be made from the checkpoint's {before}; only 1 and 3 from each other"
        raise UserError("model.channels", after, message)
    if "patch_embedding/input_norm/scale" in params:
        raise UserError("model.channels", after, f"can't change under patch_norms: the checkpoint's is {before}")
    (mean, std), (new_mean, new_std) = scales or (PLAIN, PLAIN)
    kernel = params[path].astype(np.float64) / std  # means and deviations stand along the axis of channels
    slope = kernel.sum(axis=2, keepdims=True)
    offset = slope * np.mean(new_mean) - (kernel * mean).sum(axis=2, keepdims=True)
    made = np.broadcast_to(slope / after, (*slope.shape[:2], after, slope.shape[3])) * new_std
    note("adapted", path, "3 → 1 channels, summed" if after == 1 else "1 → 3 channels, a third each")
    params = {**params, path: np.ascontiguousarray(made.astype(params[path].dtype))}
    return _with_offset(params, old, new, offset[:, :, 0], note) if np.abs(offset).max() > TINY else params


def _with_offset(params: Flat, old: Any, new: Any, offset: np.ndarray, note: Note) -> Flat:
    """The parameters with what each pixel [rows, columns, width] of a patch adds to its token."""
    bias, table = "patch_embedding/bias", "positions/embedding"
    by_patch = _of_real_pixels(offset, new)
    alike = bool((by_patch == by_patch[:1]).all())
    text = "the channels' mean and deviation, where they differ"
    if alike and bias in params:
        note("adapted", bias, text)
        return {**params, bias: (params[bias] + by_patch[0]).astype(params[bias].dtype)}
    if table in params and old.positions == new.positions:
        note("adapted", table, text)
        rows = np.pad(by_patch, ((params[table].shape[1] - len(by_patch), 0), (0, 0)))
        return {**params, table: (params[table] + rows).astype(params[table].dtype)}
    why = "patch_bias=true makes a bias that can" if alike else "image_size may be one that patch_size divides"
    message = f"the channels' means differ, and neither a bias nor learned1d positions can make up for it; {why}"
    raise UserError("model.channels", new.channels, message)


def _of_real_pixels(offset: np.ndarray, config: Any) -> np.ndarray:
    """Summed over each patch's pixels that lie within the image, [patches, width]: those filled up are zeros anyway."""
    inside = [
        (np.arange(count * patch) < side).reshape(count, patch).astype(np.float64)
        for side, count, patch in zip(config.image_shape, config.grid, config.patch_shape, strict=False)
    ]
    sums = np.einsum("yr,xc,rcd->yxd", *inside, offset, optimize=True)
    return sums.reshape(-1, offset.shape[-1])


def scale_of(preprocessing: Any, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of pixels, [channels, 1] each: along the channels of a kernel."""
    found = (np.array(getattr(preprocessing, field) or (MIDDLE,), np.float64) for field in ("mean", "std"))
    mean, std = (np.broadcast_to(values[:, None], (channels, 1)) for values in found)
    return mean, std
