"""From any kind of pixels that PIL or an array holds to uint8."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from PIL import ExifTags, Image, ImageOps

from vitzoo.data.image_files import BadImage, open_image

WITH_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")
WITHOUT_COLOUR = ("1", "L", "LA", "La", "I", "F")
SIXTEEN_BITS = 65535
STRIP = 2**20
"""Pixels that are converted at once."""
BITS, PHOTOMETRIC, SAMPLE_FORMAT = 258, 262, 339
"""Tags of a TIFF file."""
WHITE_IS_ZERO, SIGNED = 0, 2
"""Values of the second and the third."""
DEEP_COLOUR, DEEP_COLOUR_SWAPPED = "RGB;16B", "RGB;16L"
"""PIL's names of colours of 16 bits, of which it keeps the upper 8: the more significant byte first, or last."""
DEEP_KINDS = ("PNG", "PPM")
"""Kinds of files of which PIL gives 16 bits in a mode of 32."""


def stored_channels(image: Image.Image) -> int:
    """1 for an image without colour, else 3."""
    return 1 if image.mode in WITHOUT_COLOUR or image.mode.startswith("I;16") else 3


def image_pixels(image: Image.Image, channels: int) -> np.ndarray:
    """A PIL image as it is to be seen, uint8 [height, width, channels].

    It is converted in strips of rows, so that a large one lies in memory twice at most.

    Raises:
        BadImage: its numbers don't say what white is.
    """
    image = _transparency_settled(image)
    scale = _scale(image)  # turning makes a new image, which no longer knows of what kind of file it was
    # First of all, and once: after an error a second call gives pixels without one, and some readers' `getexif` is one.
    image.load()
    image = _upright(image)
    pixels = np.empty((image.height, image.width, channels), np.uint8)
    for rows in _strips(image.size):
        whole = rows == slice(0, image.height)
        strip = image if whole else image.crop((0, rows.start, image.width, rows.stop))
        pixels[rows] = _strip_pixels(strip, scale, channels)
    return pixels


def _strips(size: tuple[int, int]) -> Iterator[slice]:
    """Rows of an image of that width and height, about a million pixels at a time."""
    width, height = size
    rows = max(1, STRIP // max(width, 1))
    for top in range(0, height, rows):
        yield slice(top, min(top + rows, height))


def _strip_pixels(image: Image.Image, scale: "_Scale | None", channels: int) -> np.ndarray:
    transparent = image.info.get("transparency")
    if scale is not None:
        levels = scale.eight_bits(np.asarray(image).astype(np.int64), transparent)
        return array_pixels(levels, channels)
    if image.mode in WITH_ALPHA or transparent is not None:
        image = _on_white(image)
    image = image if image.mode in ("1", "L") else image.convert("RGB")  # PIL has no way from LAB to grey
    image = image.convert("L" if channels == 1 else "RGB")
    return np.asarray(image).reshape(image.height, image.width, channels)


def array_pixels(values: np.ndarray, channels: int) -> np.ndarray:
    """An array [H, W] or [H, W, 1, 3 or 4] of uint8, uint16 or bool as uint8 [H, W, channels].

    Raises:
        BadImage: it is of another shape or type.
    """
    if values.dtype == bool:
        values = values.astype(np.uint8) * 255
    elif values.dtype == np.uint16:
        values = _to_eight(values, SIXTEEN_BITS)
    elif values.dtype != np.uint8:
        raise BadImage(f"pixels of type {values.dtype}, which doesn't say what white is; {_as_bytes(values)}")
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or values.shape[-1] not in (1, 3, 4) or not values.size:
        raise BadImage(f"an array of shape {values.shape}; [height, width], or with 1, 3 or 4 channels, is read")
    if values.shape[-1] == channels:
        return values
    if values.shape[-1] == 1:
        return np.repeat(values, channels, axis=-1)
    return image_pixels(Image.fromarray(np.ascontiguousarray(values)), channels)


@dataclasses.dataclass(frozen=True)
class _Scale:
    """Of grey values of more than 8 bits: the largest, and whether it is black."""

    largest: int
    inverted: bool = False

    def eight_bits(self, values: np.ndarray, transparent: Any) -> np.ndarray:
        """uint8 of the same shape; values that are `transparent` become white."""
        if values.min(initial=0) < 0 or values.max(initial=0) > self.largest:
            raise BadImage(f"pixels beyond 0 to {self.largest}")
        levels = _to_eight(self.largest - values if self.inverted else values, self.largest)
        return levels if transparent is None else np.where(values == transparent, np.uint8(255), levels)


def _scale(image: Image.Image) -> _Scale | None:
    """What the grey values of an image of more than 8 bits mean; None for an image of 8."""
    tags = getattr(image, "tag_v2", {})
    if SIGNED in np.atleast_1d(tags.get(SAMPLE_FORMAT, 1)):
        raise BadImage("pixels with a sign, which don't say what white is; save it with 8 or 16 bits, unsigned")
    if image.mode.startswith("I;16"):
        bits = int(np.atleast_1d(tags.get(BITS, 16))[0])
        return _Scale(2**bits - 1, tags.get(PHOTOMETRIC) == WHITE_IS_ZERO)
    if image.mode == "I" and image.format in DEEP_KINDS:
        return _Scale(SIXTEEN_BITS)
    if image.mode in ("I", "F"):
        kind = "integers" if image.mode == "I" else "floats"
        raise BadImage(f"pixels that are {kind} of 32 bits, which don't say what white is; save it with 8 or 16 bits")
    return None


def _transparency_settled(image: Image.Image) -> Image.Image:
    """The image with its one transparent colour, if it has one, on the scale of its pixels, or else with an alpha.

    A PNG gives that colour in the file's bits, and PIL leaves it so while it makes 8 bits of the pixels. Many colours
    of 16 bits become the same of 8, so the transparent one is looked for in the file; where that is gone, no colour is
    taken for transparent, rather than neighbours of it.
    """
    transparent = image.info.get("transparency")
    tiles = getattr(image, "tile", None) if image.format == "PNG" else None
    stored = str(tiles[0][3]) if tiles else ""
    if isinstance(transparent, int) and stored in ("L;2", "L;4"):
        image.info["transparency"] = transparent * {"L;2": 85, "L;4": 17}[stored]
    if not isinstance(transparent, tuple) or not (stored == DEEP_COLOUR or max(transparent) > 255):
        return image
    file = getattr(image, "fp", None) if stored == DEEP_COLOUR else None
    if file is None or file.closed:
        opaque = image.copy()
        del opaque.info["transparency"]
        return opaque
    return _with_alpha(_whole(file), transparent)


def _with_alpha(content: bytes, transparent: Sequence[int]) -> Image.Image:
    """A PNG of colours of 16 bits with 0 for alpha where its pixels are the transparent colour, and 255 elsewhere."""
    image: Image.Image = open_image(content)
    lower: Any = open_image(content)
    # the bytes of a number in the other order, so that PIL keeps the lower one
    lower.tile = [tile._replace(args=DEEP_COLOUR_SWAPPED) for tile in lower.tile]
    image.load()
    lower.load()
    alpha = Image.new("L", image.size)
    for rows in _strips(image.size):
        box = (0, rows.start, image.width, rows.stop)
        values = np.asarray(image.crop(box)).astype(np.uint16) << 8 | np.asarray(lower.crop(box))
        seen = (values != np.array(transparent, np.uint16)).any(-1)
        alpha.paste(Image.fromarray(seen.astype(np.uint8) * np.uint8(255)), box)
    del image.info["transparency"]
    image.putalpha(alpha)
    return image


def _whole(file: IO[bytes]) -> bytes:
    """A file from its beginning, left where it was."""
    place = file.tell()
    file.seek(0)
    content = file.read()
    file.seek(place)
    return content


def _upright(image: Image.Image) -> Image.Image:
    """A loaded image turned as its EXIF says, if that can be read."""
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return image
    return image if orientation == 1 else ImageOps.exif_transpose(image)


def _on_white(image: Image.Image) -> Image.Image:
    """What is transparent laid on white, as viewers show it."""
    above = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)


def _to_eight(values: np.ndarray, largest: int) -> np.ndarray:
    """Integers from 0 to `largest`, which is 65535 at most, as uint8: to the nearest level of 255."""
    return ((values.astype(np.uint32) * 255 + largest // 2) // largest).astype(np.uint8)


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
