"""From stored images of any kind to uint8 pixels, and from those to the size that a model takes."""

import io
import os
import warnings
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from vitzoo.data.jpeg import fast_pixels
from vitzoo.data.resampling import resample_points
from vitzoo.data.settings import Preprocessing
from vitzoo.paths import strange_kind

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
# PIL warns from half of the number of pixels that it refuses; a refusal that names the file is enough.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class BadImage(Exception):
    """An image that can't be read: `reason` says why, `path` which (empty until a source adds it)."""

    def __init__(self, reason: str, path: str = ""):
        self.reason, self.path = reason, path
        super().__init__(f"{path}: {reason}" if path else reason)

    def __reduce__(self):
        return type(self), (self.reason, self.path)


def decode(image: Any, channels: int = 3) -> np.ndarray:
    """Any stored image as uint8 [height, width, channels], `channels` being 1 or 3.

    Right for: grey, 16-bit (scaled to 8, not clipped), palette, CMYK, and a wrong file ending. The EXIF orientation is
    applied (a 4 x 8 file marked 6 becomes 8 x 4). Transparency is laid on white, as viewers show it. Of an animation
    the first frame is taken.

    Args:
        image: bytes of a file, a path, a PIL image, or an array (NumPy's, JAX's or alike) [H, W] or [H, W, 1, 3 or 4]
            of uint8 or uint16.
    Raises:
        BadImage: no image, truncated, empty, missing, or larger than PIL's bound on decompression (179 megapixels).
    """
    if hasattr(image, "__array__") and not isinstance(image, Image.Image):
        image = np.asarray(image)
        return _array_channels(_eight_bits(image), channels)
    try:
        if isinstance(image, Image.Image):
            return _pixels(ImageOps.exif_transpose(image), channels)
        return _decode_file(_content(image), channels)
    except BadImage as error:
        raise BadImage(error.reason, _path(image)) from error
    except UnidentifiedImageError as error:
        raise BadImage("not an image, or of a kind that PIL doesn't know", _path(image)) from error
    except Image.DecompressionBombError as error:
        raise BadImage(f"too large: {error}", _path(image)) from error
    except FileNotFoundError as error:
        raise BadImage("no such file", _path(image)) from error
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError) as error:  # what PIL's readers raise
        raise BadImage(f"can't be read: {error}", _path(image)) from error


def stored_channels(image: Image.Image) -> int:
    """1 for an image without colour, else 3."""
    return 1 if image.mode in ("1", "L", "I", "F") or image.mode.startswith("I;16") else 3


def _content(image: Any) -> bytes:
    if isinstance(image, bytes):
        return image
    if what := strange_kind(image):
        raise BadImage(f"is {what}, not a file")
    with open(image, "rb") as file:
        return file.read()


def _decode_file(content: bytes, channels: int) -> np.ndarray:
    if not content:
        raise BadImage("empty: 0 bytes")
    opened = Image.open(io.BytesIO(content))
    if channels == 3 and (pixels := fast_pixels(content, opened)) is not None:
        return pixels
    return _pixels(ImageOps.exif_transpose(opened), channels)


def _path(image: Any) -> str:
    return os.fspath(image) if isinstance(image, str | os.PathLike) else ""


def _pixels(image: Image.Image, channels: int) -> np.ndarray:
    image.load()
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _array_channels(_eight_bits(np.asarray(image)), channels)
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    image = image.convert("L" if channels == 1 else "RGB")
    return np.array(image).reshape(image.height, image.width, channels)


def _eight_bits(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.uint8:
        return values
    if values.dtype == bool:
        return values.astype(np.uint8) * 255
    if not np.issubdtype(values.dtype, np.integer):
        raise BadImage(f"pixels of type {values.dtype}, which doesn't say what white is; {_as_bytes(values)}")
    if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
        raise BadImage("pixels of more than 16 bits")
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 = 255 * 257


def _as_bytes(values: np.ndarray) -> str:
    """What makes pixels of such numbers, if their range says that."""
    if not np.issubdtype(values.dtype, np.floating):
        return "give uint8, 0 to 255"
    low, high = (float(bound) for bound in (values.min(initial=0), values.max(initial=0)))
    if low >= 0 and high <= 1:
        return "for values 0 to 1 give (image * 255).round().astype(np.uint8)"
    if low >= 0 and high <= 255:
        return "for values 0 to 255 give image.round().astype(np.uint8)"
    return f"give uint8, 0 to 255 (these are {low:g} to {high:g})"


def _array_channels(values: np.ndarray, channels: int) -> np.ndarray:
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or values.shape[-1] not in (1, 3, 4) or not values.size:
        raise BadImage(f"an array of shape {values.shape}; [height, width], or with 1, 3 or 4 channels, is read")
    if values.shape[-1] == channels:
        return values
    if values.shape[-1] == 1:
        return np.repeat(values, channels, axis=-1)
    return _pixels(Image.fromarray(np.ascontiguousarray(values)), channels)


def resize_eval(image: np.ndarray, size: tuple[int, int], preprocessing: Preprocessing) -> np.ndarray:
    """An image [H, W, C] as [height, width, C]: in evaluation, prediction, and training without crops.

    `squash` resizes both sides, whatever the proportions; `short_side_crop` covers the size and cuts the centre out;
    `pad` fits into the size and fills with black. In both the other side is rounded down, as torchvision, timm and
    transformers do. With `crop_fraction` c, the resized frame is 1/c larger and its centre is kept: size 224 with 0.875
    is "resize the short side to 256, crop 224".
    """
    height, width = (round(side / preprocessing.crop_fraction) for side in size)
    if preprocessing.resize == "squash":
        frame = resize(image, (height, width), preprocessing)
    else:
        nearest = max if preprocessing.resize == "short_side_crop" else min
        frame = resize(image, _in_proportion(image.shape[:2], (height, width), nearest), preprocessing)
    return _centre(frame, size)


def covering_size(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """What an image of size `old` is resized to in proportion so that it just covers `new`."""
    return _in_proportion(old, new, max)


def _in_proportion(old: tuple[int, ...], new: tuple[int, int], nearest: Any) -> tuple[int, int]:
    side, was = nearest(zip(new, old, strict=True), key=lambda sides: sides[0] / sides[1])
    rows, columns = (max(1, length * side // was) for length in old)
    return rows, columns


def resize(image: np.ndarray, size: tuple[int, int], preprocessing: Preprocessing) -> np.ndarray:
    """Plain resizing of uint8 [H, W, C] to [height, width, C]."""
    if image.shape[:2] == tuple(size):
        return image
    if not preprocessing.antialias and preprocessing.interpolation != "nearest":
        return resample_points(image, size, preprocessing.interpolation)
    height, width = size
    return from_pil(to_pil(image).resize((width, height), INTERPOLATIONS[preprocessing.interpolation]))


def _centre(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The centre of a frame, cut where it is larger than `size` and black-bordered where it is smaller."""
    for axis, side in enumerate(size):
        have = frame.shape[axis]
        if have > side:
            start = (have - side) // 2
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
