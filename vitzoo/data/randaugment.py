"""RandAugment (Cubuk et al. 2019, https://arxiv.org/abs/1909.13719) and colour jitter, on PIL images."""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from vitzoo.data.images import from_pil, to_pil

FULL = 10.0  # the magnitude at which every operation has its full range, as in the papers' code
GREY = 128  # what fills the corners that rotations, shears and translations open
Operation = Callable[[Image.Image, float, np.random.Generator], Image.Image]


def randaugment(image: np.ndarray, layers: int, magnitude: float, rng: np.random.Generator) -> np.ndarray:
    """`layers` operations after one another, each drawn uniformly from the 16 of the papers' code.

    At `magnitude` 10: rotate 30 degrees, shear 0.3, translate 100 pixels of 224 (in proportion for other sizes), cut
    out a square of 80 of 224, posterize to 4 bits, solarize from 256, add 110 below 128, enhance by 1.9; random signs.
    Magnitude 0 isn't nothing: enhancements then go to 0.1 and posterize to 0 bits, as in the published code.
    """
    picture = to_pil(image)
    for _ in range(layers):
        operation = OPERATIONS[int(rng.integers(len(OPERATIONS)))]
        picture = operation(picture, magnitude / FULL, rng)
    return from_pil(picture)


def color_jitter(image: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Brightness, contrast and (for colour) saturation, each by a factor uniform in 1 - strength .. 1 + strength."""
    picture = to_pil(image)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        factor = rng.uniform(max(0.0, 1 - strength), 1 + strength)
        if picture.mode != "L" or enhance is not ImageEnhance.Color:
            picture = enhance(picture).enhance(factor)
    return from_pil(picture)


def signed(value: float, rng: np.random.Generator) -> float:
    """The value or its negative, each half of the time."""
    return value if rng.random() < 0.5 else -value


def fill(picture: Image.Image) -> int | tuple[int, int, int]:
    """Grey, in the picture's mode."""
    return GREY if picture.mode == "L" else (GREY, GREY, GREY)


def _move(picture: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    return picture.transform(
        picture.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=fill(picture)
    )


def _rotate(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return picture.rotate(signed(30 * level, rng), Image.Resampling.NEAREST, fillcolor=fill(picture))


def _shear_x(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return _move(picture, (1, signed(0.3 * level, rng), 0, 0, 1, 0))


def _shear_y(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return _move(picture, (1, 0, 0, signed(0.3 * level, rng), 1, 0))


def _translate_x(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return _move(picture, (1, 0, signed(100 / 224 * picture.width * level, rng), 0, 1, 0))


def _translate_y(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return _move(picture, (1, 0, 0, 0, 1, signed(100 / 224 * picture.height * level, rng)))


def _cut_out(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    """A square around a random centre; at the border part of it falls outside."""
    half = round(40 / 224 * min(picture.size) * level)
    across, down = int(rng.integers(picture.width)), int(rng.integers(picture.height))
    box = (
        max(0, across - half),
        max(0, down - half),
        min(picture.width, across + half),
        min(picture.height, down + half),
    )
    picture = picture.copy()
    if box[0] < box[2] and box[1] < box[3]:
        picture.paste(fill(picture), box)
    return picture


def _posterize(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    kept = min(8, int(4 * level))
    mask = (0xFF << (8 - kept)) & 0xFF
    return picture.point([value & mask for value in range(256)] * len(picture.getbands()))


def _solarize(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return ImageOps.solarize(picture, int(256 * level))


def solarize_add(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    """Up to 110 more where a pixel is below 128."""
    addition = int(110 * level)
    table = [min(255, value + addition) if value < 128 else value for value in range(256)]
    return picture.point(table * len(picture.getbands()))


def _enhanced(enhance: Callable) -> Operation:
    return lambda picture, level, rng: enhance(picture).enhance(1.8 * level + 0.1)


def plain(function: Callable[[Image.Image], Image.Image]) -> Operation:
    """An operation without a level."""
    return lambda picture, level, rng: function(picture)


OPERATIONS: tuple[Operation, ...] = (
    plain(ImageOps.autocontrast),
    plain(ImageOps.equalize),
    plain(ImageOps.invert),
    _rotate,
    _posterize,
    _solarize,
    _enhanced(ImageEnhance.Color),
    _enhanced(ImageEnhance.Contrast),
    _enhanced(ImageEnhance.Brightness),
    _enhanced(ImageEnhance.Sharpness),
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
    _cut_out,
    solarize_add,
)
