"""A damaged image is an error exactly where PIL's own first look at its pixels is one."""

import io

import numpy as np
import pytest
from PIL import ExifTags, Image

from vitzoo.data.image_files import BadImage
from vitzoo.data.images import decode
from vitzoo.data.modes import SAMPLE_FORMAT, SIGNED

SIZE = (23, 19)
PIXELS = np.random.default_rng(0).integers(0, 256, (*SIZE[::-1], 3), np.uint8)
KINDS = {
    "PNG": {},
    "PNG, deep": {"array": PIXELS.astype(np.uint16)[..., 0] * 257},
    "PNG, with EXIF": {"exif": Image.Exif()},
    "TIFF": {},
    "TIFF, packed": {"compression": "tiff_adobe_deflate"},
    "TIFF, LZW": {"compression": "tiff_lzw"},
    "WEBP": {"lossless": True},
    "GIF": {},
    "BMP": {},
    "JPEG": {"quality": 90},
    "JPEG, progressive": {"progressive": True},
}
FLIPS = 200


def encoded(kind: str) -> bytes:
    options, buffer = dict(KINDS[kind]), io.BytesIO()
    Image.fromarray(options.pop("array", PIXELS)).save(buffer, kind.split(",")[0], **options)
    return buffer.getvalue()


def looked_at_once(content: bytes) -> Image.Image | None:
    """PIL's image, or None where opening it or its first load() fails."""
    try:
        image = Image.open(io.BytesIO(content))
        image.load()
    except Exception:
        return None
    return image


def flipped(content: bytes) -> list[bytes]:
    """The file with one bit turned over, at places drawn at random, of those that keep its size in pixels: a size that
    damage made large takes long to read.
    """
    rng, found = np.random.default_rng(1), []
    for place in rng.integers(0, 8 * len(content), FLIPS):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        try:
            kept = Image.open(io.BytesIO(damaged)).size == SIZE
        except Exception:
            kept = True
        found += [bytes(damaged)] if kept else []
    return found


def plain(image: Image.Image) -> bool:
    """Whether an image is one of colours that are to be read as they are, whatever else the damage says."""
    signed = SIGNED in np.atleast_1d(getattr(image, "tag_v2", {}).get(SAMPLE_FORMAT, 1))
    turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
    return image.mode == "RGB" and not (signed or turned or image.info.get("transparency"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_an_error_where_pil_finds_one(kind):
    errors = 0
    for content in flipped(encoded(kind)):
        image = looked_at_once(content)
        if image is None:
            errors += 1
            with pytest.raises(BadImage):
                decode(content)
        elif plain(image):
            np.testing.assert_array_equal(decode(content), np.asarray(image))
    if kind.startswith("PNG"):
        assert errors > 0.95 * FLIPS, "each byte of a PNG's pixels is under a checksum"
