"""Photographs have the same pixels, and damaged ones the same fate, with the extra `fast` and without."""

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from vitzoo.data import image_files
from vitzoo.data.images import BadImage, decode


def photograph(height: int = 37, width: int = 51, mode: str = "RGB", **options) -> bytes:
    """Smooth colours under noise, so that every step of the format has something to do."""
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (5, 7, 3), np.uint8)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    noisy = np.clip(np.asarray(smooth) + rng.normal(0, 8, (height, width, 3)), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noisy).convert(mode).save(buffer, "JPEG", **options)
    return buffer.getvalue()


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return photograph(exif=exif)


def outcome(content: bytes, channels: int) -> np.ndarray | str:
    try:
        return decode(content, channels)
    except BadImage as error:
        return str(error)


@pytest.fixture
def without(monkeypatch):
    """What PIL alone makes of a file."""

    def read(content: bytes, channels: int) -> np.ndarray | str:
        with monkeypatch.context() as patch:
            patch.setattr(image_files, "simplejpeg", None)
            return outcome(content, channels)

    return read


KINDS = {
    **{f"subsampling {kind}": photograph(subsampling=kind, quality=85) for kind in (0, 1, 2)},
    **{f"{quality} %": photograph(quality=quality) for quality in (1, 50, 100)},
    **{f"orientation {number}": turned(number) for number in range(1, 9)},
    **{f"{height} x {width}": photograph(height, width) for height, width in ((1, 1), (8, 8), (16, 33), (65, 7))},
    "progressive": photograph(progressive=True),
    "optimized": photograph(optimize=True),
    "restarts": photograph(restart_marker_blocks=2),
    "colours not transformed": photograph(keep_rgb=True),
    "grey": photograph(mode="L"),
    "CMYK": photograph(mode="CMYK"),
    "with words behind it": photograph() + b"words",
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_pixels_are_those_of_pil(kind, channels, without):
    read = outcome(KINDS[kind], channels)
    assert isinstance(read, np.ndarray), read
    np.testing.assert_array_equal(read, without(KINDS[kind], channels))


def test_a_plain_photograph_is_read_by_the_fast_library(monkeypatch):
    calls = []
    monkeypatch.setattr(simplejpeg, "decode_jpeg", lambda *args: calls.append(args) or np.zeros((37, 51, 3), np.uint8))
    assert not decode(photograph()).any()
    assert len(calls) == 1


def test_a_cut_or_damaged_photograph_is_what_it_is_to_pil(without):
    whole, rng = photograph(), np.random.default_rng(1)
    cut = [whole[: round(len(whole) * part)] for part in (0.05, 0.3, 0.6, 0.9, 0.99)]
    changed = [bytearray(whole) for _ in range(400)]
    for number, content in enumerate(changed):  # every other one in its head, which says how to read the rest
        content[rng.integers(2, 620 if number % 2 else len(whole))] = rng.integers(256)
    for content in [*cut, *map(bytes, changed)]:
        np.testing.assert_array_equal(outcome(content, 3), without(content, 3))
