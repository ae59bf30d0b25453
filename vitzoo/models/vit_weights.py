"""How a ViT's weights go onto another ViT: another image or patch size, number of channels or kind of pooling."""

from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.base import Flat, Note, Scale, Scales, TransferRules
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.nn.positions import resize_axis, resize_table, resize_weights
from vitzoo.nn.relative import resize_bias, resize_embedding
from vitzoo.nn.state import Params

PLAIN: Scale = (np.zeros((1, 1)), np.ones((1, 1)))
TINY = 1e-9
"""What sums in float64 are off by."""


def adapt(params: Flat, old: ViTConfig, new: ViTConfig, note: Note, scales: Scales | None = None) -> Flat:
    """A ViT's parameters, flat, between two Configs; see `TransferRules.adapt`."""
    params = other_grid(params, old, new, note)
    params = prefix_rows(params, old, new, note)
    params = patch_pixels(params, old, new, note)
    params = patch_bias(params, old, new, note)
    return patch_channels(params, old, new, scales, note)


def other_grid(params: Flat, old: ViTConfig, new: ViTConfig, note: Note) -> Flat:
    """Positions on another grid of patches."""
    if old.grid == new.grid or old.positions != new.positions:
        return params
    resized = {path: _resized(path, leaf, old, new) for path, leaf in params.items()}
    (a, b), (c, d) = old.grid, new.grid
    for path in params:
        if resized[path] is not params[path]:
            note("resized", path, f"{a}×{b} → {c}×{d} patches ({new.position_resize})")
    return resized


def prefix_rows(params: Flat, old: ViTConfig, new: ViTConfig, note: Note) -> Flat:
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


def _placed(config: ViTConfig) -> list[str]:
    """The tokens before the patches that have rows, in their order."""
    tokens = ["class token"] if config.has_class_token else []
    tokens += ["distillation token"] if config.distillation != "none" else []
    return [*tokens, *(f"register {index}" for index in range(config.registers))][: config.placed_prefix]


def patch_pixels(params: Flat, old: ViTConfig, new: ViTConfig, note: Note) -> Flat:
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


def patch_bias(params: Flat, old: ViTConfig, new: ViTConfig, note: Note) -> Flat:
    """A bias of zeros where the patch embedding had none and now has one, which changes nothing."""
    kernel, path = "patch_embedding/kernel", "patch_embedding/bias"
    if kernel not in params or path in params or not new.patch_bias:
        return params
    note("new", path, "zeros")
    return {**params, path: np.zeros(params[kernel].shape[-1:], params[kernel].dtype)}


def patch_channels(params: Flat, old: ViTConfig, new: ViTConfig, scales: Scales | None, note: Note) -> Flat:
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


def _with_offset(params: Flat, old: ViTConfig, new: ViTConfig, offset: np.ndarray, note: Note) -> Flat:
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


def _of_real_pixels(offset: np.ndarray, config: ViTConfig) -> np.ndarray:
    """Summed over each patch's pixels that lie within the image, [patches, width]: those filled up are zeros anyway."""
    inside = [
        (np.arange(count * patch) < side).reshape(count, patch).astype(np.float64)
        for side, count, patch in zip(config.image_shape, config.grid, config.patch_shape, strict=False)
    ]
    sums = np.einsum("yr,xc,rcd->yxd", *inside, offset, optimize=True)
    return sums.reshape(-1, offset.shape[-1])


def resize_positions(params: Params, old: ViTConfig, new: ViTConfig) -> Params:
    """Parameters of a model with config `old`, their positions fitted to the grid of `new` by `new`'s method.

    Where the grids are equal they are given back as they are. Fixed and rotary positions hold no parameters.
    """
    if old.grid == new.grid:
        return params
    flat = flatten(params)
    return unflatten({path: _resized(path, leaf, old, new) for path, leaf in flat.items()})


def _resized(path: str, leaf: Any, old: ViTConfig, new: ViTConfig) -> Any:
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


TRANSFER = TransferRules(
    fixed=(
        *("width", "depth", "mlp_dim", "num_heads", "head_dim", "gated_mlp", "qkv_bias", "out_bias"),
        *("patch_bias", "patch_norms"),
    ),
    may_change={"patch_bias": (False, True)},  # a bias of zeros may be added
    leaves={
        "pooling": r"class_token|pool/.*|(head_norm|pre_logits)/.*",
        "has_class_token": r"class_token",
        "norm_after_pooling": r"head_norm/.*|encoder/norm/.*",
        "registers": r"registers",
        "distillation": r"distillation_(token|head/.*)",
        "embedding_norm": r"embedding_norm/.*",
        "positions": r"positions/.*|.*/relative/.*",
        "layer_scale": r".*/scale[12]",
        "qk_norm": r".*/(query|key)_norm/.*",
        "qk_norm_bias": r".*/(query|key)_norm/bias",
        "pre_logits": r"pre_logits/.*",
    },
    head=r"(distillation_)?head/.*",
    new_head={
        "pre_logits": "{text}, new, since pre_logits differs",
        "pooled_size": "{text}, new, since pooling gives another size",
    },
    adapt=adapt,
)
