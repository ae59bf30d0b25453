"""From stored images of any kind to uint8 pixels, and from those to the size that a model takes: with a filter, as PIL
resizes, or without, as `tf.image.resize` and `jax.image.resize(antialias=False)` do.
"""

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from PIL import Image

from vitzoo.data.image_files import BadImage, fast_pixels, open_image, room_for
from vitzoo.data.modes import array_pixels, image_pixels
from vitzoo.data.settings import Preprocessing
from vitzoo.paths import strange_kind

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

Picture = bytes | str | os.PathLike[str] | Image.Image | np.ndarray | jax.Array
"""An image as it is stored, or given: a file's bytes or path, a PIL image, an array."""


def decode(image: Picture, channels: int = 3, finished: contextlib.ExitStack | None = None) -> np.ndarray:
    """Any stored image as uint8 [height, width, channels], `channels` being 1 or 3.

    Right for: grey, up to 16 bits (scaled to 8, not clipped), white as zero, palette, CMYK, and a wrong file ending.
    The EXIF orientation is applied (a 4 x 8 file marked 6 becomes 8 x 4). Transparency is laid on white, as viewers
    show it. Of an animation the first frame is taken.

    Args:
        image: bytes of a file, a path, a PIL image, or an array (NumPy's, JAX's or alike) [H, W] or [H, W, 1, 3 or 4]
            of uint8 or uint16.
        channels: of the result.
        finished: is closed when the pixels have been brought to the model's size. Until then other threads hold no
            more than `vitzoo.data.image_files.MOST_PIXELS` with these; without it, only while they are decoded.

    Raises:
        BadImage: no image, of a kind that isn't read, truncated, empty, missing, larger than PIL's bound on
            decompression (179 megapixels), or of numbers that don't say what white is (floats, integers of 32 bits).
    """
    try:
        with contextlib.ExitStack() as here:
            return _decoded(image, channels, finished or here)
    except BadImage as error:
        raise BadImage(error.reason, _path(image)) from error
    except FileNotFoundError as error:
        raise BadImage("no such file", _path(image)) from error
    except Image.DecompressionBombError as error:
        raise BadImage(f"too large: {error}", _path(image)) from error
    except Exception as error:  # a damaged file makes PIL's readers raise whatever they like
        said = " ".join(str(error).split()) or type(error).__name__
        raise BadImage(f"can't be read: {said}", _path(image)) from error


def _decoded(image: Any, channels: int, finished: contextlib.ExitStack) -> np.ndarray:
    if hasattr(image, "__array__") and not isinstance(image, Image.Image):
        return array_pixels(np.asarray(image), channels)
    content = b"" if isinstance(image, Image.Image) else _content(image)
    opened = image if isinstance(image, Image.Image) else open_image(content)
    finished.enter_context(room_for(opened.width * opened.height))
    if content and channels == 3 and (pixels := fast_pixels(content, opened)) is not None:
        return pixels
    return image_pixels(opened, channels)


def _content(image: Any) -> bytes:
    if isinstance(image, bytes):
        return image
    if not isinstance(image, str | os.PathLike):  # a number would be an open file of the process
        raise BadImage(f"is of the type {type(image).__name__}, not an image")
    if what := strange_kind(image):
        raise BadImage(f"is {what}, not a file")
    with open(image, "rb") as file:
        return file.read()


def _path(image: Any) -> str:
    return os.fspath(image) if isinstance(image, str | os.PathLike) else ""


def model_pixels(image: Picture, channels: int, resize: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A stored image as `resize` makes it of its decoded pixels; arguments and errors as of `decode`."""
    with contextlib.ExitStack() as finished:
        return resize(decode(image, channels, finished))


def resize_eval(image: np.ndarray, size: tuple[int, int], preprocessing: Preprocessing) -> np.ndarray:
    """uint8 [H, W, C] as [height, width, C], of `pixel_type`: in evaluation, prediction, and training without crops.

    `squash` resizes both sides, whatever the proportions; `short_side_crop` covers the size and cuts the centre out;
    `pad` fits into the size and fills with black. In both the other side is rounded down, as torchvision, timm and
    transformers do. With `crop_fraction` c, the resized frame is 1/c larger and its centre is kept: size 224 with 0.875
    is "resize the short side to 256, crop 224". Where an odd number of pixels goes, `crop_offset` says which half is
    larger.
    """
    height, width = (round(side / preprocessing.crop_fraction) for side in size)
    if preprocessing.resize == "squash":
        frame = resize(image, (height, width), preprocessing)
    else:
        nearest = max if preprocessing.resize == "short_side_crop" else min
        frame = resize(image, _in_proportion(image.shape[:2], (height, width), nearest), preprocessing)
    return _centre(frame, size, preprocessing.crop_offset)


def covering_size(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """What an image of size `old` is resized to in proportion so that it just covers `new`."""
    return _in_proportion(old, new, max)


def _in_proportion(old: tuple[int, ...], new: tuple[int, int], nearest: Any) -> tuple[int, int]:
    side, was = nearest(zip(new, old, strict=True), key=lambda sides: sides[0] / sides[1])
    rows, columns = (max(1, length * side // was) for length in old)
    return rows, columns


def resize(image: np.ndarray, size: tuple[int, int], preprocessing: Preprocessing) -> np.ndarray:
    """Plain resizing of uint8 [H, W, C] to [height, width, C] of `pixel_type`."""
    if image.shape[:2] == tuple(size):
        return image.astype(pixel_type(preprocessing), copy=False)
    height, width = size
    method, rounding = preprocessing.interpolation, preprocessing.rounding
    if method == "nearest":
        return from_pil(to_pil(image).resize((width, height), INTERPOLATIONS[method])).astype(pixel_type(preprocessing))
    if not preprocessing.antialias:
        return rounded(resample_points(image, size, method), rounding)
    if rounding == "round":
        return from_pil(to_pil(image).resize((width, height), INTERPOLATIONS[method]))
    box = (width, height), INTERPOLATIONS[method]
    # one after another, and none kept: in float32, a channel is as large as the whole image
    floats = [np.asarray(to_pil(image[..., [index]]).convert("F").resize(*box)) for index in range(image.shape[-1])]
    return rounded(np.stack(floats, axis=-1), rounding)


def pixel_type(preprocessing: Preprocessing) -> type:
    """Of the pixels of resized images: float32 where they aren't rounded, else uint8."""
    return np.float32 if preprocessing.rounding == "none" else np.uint8


def rounded(values: np.ndarray, rounding: str = "round") -> np.ndarray:
    """Floats on the 0..255 scale as `Preprocessing.rounding` says: uint8, or float32 for `none`."""
    if rounding == "none":
        return values.astype(np.float32, copy=False)
    return np.clip(np.rint(values) if rounding == "round" else values, 0, 255).astype(np.uint8)


def _centre(frame: np.ndarray, size: tuple[int, int], offset: str) -> np.ndarray:
    """The centre of a frame, cut where it is larger than `size` and black-bordered where it is smaller."""
    for axis, side in enumerate(size):
        have = frame.shape[axis]
        if have > side:
            margin = have - side
            start = round(margin / 2) if offset == "half_even" else margin // 2
            frame = np.take(frame, range(start, start + side), axis)
        elif have < side:
            before = (side - have) // 2
            widths = [(before, side - have - before) if axis == other else (0, 0) for other in range(3)]
            frame = np.pad(frame, widths)
    return frame


def to_pil(image: np.ndarray) -> Image.Image:
    """uint8 [H, W, 1 or 3] as a PIL image."""
    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else np.ascontiguousarray(image))


def from_pil(image: Image.Image) -> np.ndarray:
    """A PIL image of mode L or RGB as uint8 [H, W, 1 or 3]."""
    return np.asarray(image).reshape(image.height, image.width, -1)


def resample_points(image: np.ndarray, size: tuple[int, int], method: str) -> np.ndarray:
    """uint8 [H, W, C] to float32 [height, width, C]: each new pixel interpolates its nearest neighbours, whatever the
    scale.

    Pixel centres lie at half-integers; neighbours beyond the border count nothing, the others are scaled up for them.
    """
    if method == "bilinear":
        return _between_two(_between_two(image, size[1], 1), size[0], 0)
    rows = point_weights(image.shape[0], size[0], method)
    columns = point_weights(image.shape[1], size[1], method)
    image, rows = _looked_at(image, rows, 0)
    image, columns = _looked_at(image, columns, 1)
    # in float64, so that what is a whole level stays one, and cutting fractions off doesn't take it to the one below
    values = np.einsum("yh,hwc->ywc", rows, image.astype(np.float64), optimize=True)
    return np.einsum("xw,ywc->yxc", columns, values, optimize=True).astype(np.float32)


def _looked_at(image: np.ndarray, weights: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels of an axis that count in any new one: of a large image, a small part of it."""
    counting = np.flatnonzero(weights.any(0))
    return np.take(image, counting, axis), weights[:, counting]


def _between_two(x: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Bilinear along one axis in float32, as TensorFlow computes it: the first neighbour and a share of the step to the
    second, across before down, so that cut off fractions are those of its pixels too.
    """
    old = x.shape[axis]
    at = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * (np.float32(old) / np.float32(size)) - np.float32(0.5)
    first = np.floor(at)
    share = (at - first).reshape([-1 if axis == other else 1 for other in range(x.ndim)])
    before, after = (
        np.take(x, np.clip(first + step, 0, old - 1).astype(int), axis=axis).astype(np.float32)
        for step in (np.float32(0), np.float32(1))
    )
    return before + (after - before) * share


@functools.lru_cache(maxsize=256)
def point_weights(old: int, new: int, method: str) -> np.ndarray:
    """How much each of `old` pixels counts in each of `new` ones, float64 [new, old], rows summing to 1."""
    centres = (np.arange(new) + 0.5) * old / new - 0.5
    distance = np.abs(centres[:, None] - np.arange(old)[None, :])
    weights = _kernel(distance, method)
    return weights / weights.sum(1, keepdims=True)


def _kernel(x: np.ndarray, method: str) -> np.ndarray:
    if method == "bicubic":  # Keys 1981, a = -0.5
        near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
        return np.where(x < 1, near, np.where(x < 2, far, 0))
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)
