"""Variation of training images on the host, each draw keyed by (seed, global position)."""

import dataclasses
import math

import numpy as np
from PIL import ImageFilter, ImageOps

from vitzoo.data import draws
from vitzoo.data.images import covering_size, from_pil, pixel_type, resize, resize_eval, rounded, to_pil
from vitzoo.data.randaugment import color_jitter, randaugment
from vitzoo.data.randaugment_increasing import randaugment_increasing
from vitzoo.data.settings import Augment, Preprocessing

SIMPLE_PADDING = 4  # pixels, whatever the size


def varies_after_resize_only(augment: Augment) -> bool:
    """Whether an example's image before shift and flip is always the same, so that it can be kept resized."""
    return augment.crop in ("none", "shift") and not changes_colours(augment)


def changes_colours(augment: Augment) -> bool:
    """Whether anything but the place of pixels varies."""
    return bool(augment.three_augment or augment.randaugment_layers or augment.color_jitter)


def augment_image(
    image: np.ndarray, size: tuple[int, int], augment: Augment, preprocessing: Preprocessing, seed: int, position: int
) -> np.ndarray:
    """One training image: uint8 [H, W, C] of any size to [height, width, C] of `pixel_type`.

    Changes of colour act on whole levels.
    """
    rng = draws.generator(seed, position)
    image = crop(image, size, augment, preprocessing, rng)
    image = shift_and_flip(image[None], augment, seed, np.array([position]))[0]
    if changes_colours(augment):
        image = rounded(image)
    if augment.three_augment:
        image = three_augment(image, rng)
    if augment.randaugment_layers:
        layers, magnitude = augment.randaugment_layers, augment.randaugment_magnitude
        if augment.randaugment_increasing:
            image = randaugment_increasing(image, layers, magnitude, augment.randaugment_std, rng)
        else:
            image = randaugment(image, layers, magnitude, rng)
    if augment.color_jitter:
        image = color_jitter(image, augment.color_jitter, rng)
    return image.astype(pixel_type(preprocessing), copy=False)


def shift_and_flip(images: np.ndarray, augment: Augment, seed: int, positions: np.ndarray) -> np.ndarray:
    """Random translation by up to `shift` pixels over black, and random left-right flips, of a batch [N, H, W, C].

    Every example's draws depend on its position alone, so a batch gives what its examples give one by one.
    """
    if augment.crop == "shift":
        images = _shift(images, augment.shift, seed, positions)
    if augment.flip:
        flipped = draws.uniform(seed, positions, 2) < 0.5
        images = np.where(flipped[:, None, None, None], images[:, :, ::-1], images)
    return images


def _shift(images: np.ndarray, pixels: int, seed: int, positions: np.ndarray) -> np.ndarray:
    count, height, width, _ = images.shape
    down, right = ((draws.uniform(seed, positions, axis) * (2 * pixels + 1)).astype(int) for axis in (0, 1))
    padded = np.pad(images, ((0, 0), (pixels, pixels), (pixels, pixels), (0, 0)))
    rows = down[:, None] + np.arange(height)
    columns = right[:, None] + np.arange(width)
    return padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def crop(
    image: np.ndarray, size: tuple[int, int], augment: Augment, preprocessing: Preprocessing, rng: np.random.Generator
) -> np.ndarray:
    """The image brought to `size` in the way `augment.crop` says."""
    if augment.crop == "inception":
        top, left, height, width = inception_window(image.shape[0], image.shape[1], augment.crop_area, rng)
        return resize(image[top : top + height, left : left + width], size, preprocessing)
    if augment.crop == "resize_random":
        larger = (round(size[0] * augment.crop_scale), round(size[1] * augment.crop_scale))
        whole = dataclasses.replace(preprocessing, crop_fraction=1.0)
        return _window(resize_eval(image, larger, whole), size, rng)
    if augment.crop == "simple":
        covering = resize(image, covering_size(image.shape[:2], size), preprocessing)
        padding = [(SIMPLE_PADDING, SIMPLE_PADDING), (SIMPLE_PADDING, SIMPLE_PADDING), (0, 0)]
        return _window(np.pad(covering, padding, "reflect"), size, rng)
    return resize_eval(image, size, preprocessing)


def _window(frame: np.ndarray, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """A window of `size` at a uniform place."""
    top, left = (int(rng.integers(have - want + 1)) for have, want in zip(frame.shape[:2], size, strict=True))
    return frame[top : top + size[0], left : left + size[1]]


def inception_window(
    height: int, width: int, area: tuple[float, float], rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """(top, left, height, width) of a random window: its fraction of the area uniform in `area`, its aspect ratio
    log-uniform in 3/4 .. 4/3 (Szegedy et al. 2015, https://arxiv.org/abs/1409.4842). After ten windows that don't fit,
    the whole image.
    """
    for _ in range(10):
        target = height * width * rng.uniform(*area)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < across <= width and 0 < down <= height:
            return int(rng.integers(height - down + 1)), int(rng.integers(width - across + 1)), down, across
    return 0, 0, height, width


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
