"""3-Augment (Touvron et al. 2022, DeiT III, https://arxiv.org/abs/2204.07118), on PIL images."""

import numpy as np
from PIL import ImageFilter, ImageOps

from vitzoo.data.images import from_pil, to_pil

BLUR = (0.1, 2.0)  # range of the Gaussian's radius, in pixels


def three_augment(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One of three, equally often: greyscale; solarize, values from 128 on inverted; Gaussian blur of a radius uniform
    in 0.1 .. 2 pixels. uint8 [H, W, C] to the same.
    """
    picture, choice = to_pil(image), int(rng.integers(3))
    if choice == 0:
        return from_pil(picture.convert("L").convert(picture.mode))
    if choice == 1:
        return from_pil(ImageOps.solarize(picture, 128))
    return from_pil(picture.filter(ImageFilter.GaussianBlur(rng.uniform(*BLUR))))
