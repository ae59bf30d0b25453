"""RandAugment's operations so that all of them grow with the magnitude, as in timm's policies `rand-...-inc1`.

At level 1: rotate 30 degrees, shear 0.3, translate 0.45 of the side, posterize to 0 bits, solarize from 0, add 110
below 128, enhance by 1.9 or 0.1; level 0 changes nothing that has a level, but for posterize (4 bits). Corners open
onto grey, where timm has the mean colour.
"""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from vitzoo.data.images import from_pil, to_pil
from vitzoo.data.randaugment import FULL, Operation, fill, plain, signed, solarize_add

Matrix = tuple[float, ...]
APPLIED = 0.5  # fraction of the drawn operations that act


def randaugment_increasing(
    image: np.ndarray, layers: int, magnitude: float, std: float, rng: np.random.Generator
) -> np.ndarray:
    """`layers` operations after one another, each drawn uniformly from the 15, each left out half of the time.

    Each has a magnitude of its own, normal around `magnitude` and cut off at 0 and 10. uint8 [H, W, C] to the same.
    """
    picture = to_pil(image)
    for _ in range(layers):
        operation = OPERATIONS[int(rng.integers(len(OPERATIONS)))]
        if rng.random() < APPLIED:
            level = min(max(0.0, rng.normal(magnitude, std)), FULL) / FULL
            picture = operation(picture, level, rng)
    return from_pil(picture)


def _rotate(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return picture.rotate(signed(30 * level, rng), Image.Resampling.BICUBIC, fillcolor=fill(picture))


def _moved(matrix: Callable[[Image.Image, float], Matrix]) -> Operation:
    """An affine operation of a signed level."""

    def move(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
        data = matrix(picture, signed(level, rng))
        return picture.transform(
            picture.size, Image.Transform.AFFINE, data, Image.Resampling.BICUBIC, fillcolor=fill(picture)
        )

    return move


def _posterize(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    mask = (0xFF << (8 - (4 - int(4 * level)))) & 0xFF
    return picture.point([value & mask for value in range(256)] * len(picture.getbands()))


def _solarize(picture: Image.Image, level: float, rng: np.random.Generator) -> Image.Image:
    return ImageOps.solarize(picture, 256 - int(256 * level))


def _enhanced(enhance: Callable) -> Operation:
    return lambda picture, level, rng: enhance(picture).enhance(max(0.1, 1 + signed(0.9 * level, rng)))


OPERATIONS: tuple[Operation, ...] = (
    plain(ImageOps.autocontrast),
    plain(ImageOps.equalize),
    plain(ImageOps.invert),
    _rotate,
    _posterize,
    _solarize,
    solarize_add,
    _enhanced(ImageEnhance.Color),
    _enhanced(ImageEnhance.Contrast),
    _enhanced(ImageEnhance.Brightness),
    _enhanced(ImageEnhance.Sharpness),
    _moved(lambda picture, level: (1, 0.3 * level, 0, 0, 1, 0)),
    _moved(lambda picture, level: (1, 0, 0, 0.3 * level, 1, 0)),
    _moved(lambda picture, level: (1, 0, 0.45 * picture.width * level, 0, 1, 0)),
    _moved(lambda picture, level: (1, 0, 0, 0, 1, 0.45 * picture.height * level)),
)
