"""Variations of training images: their ranges, and that each depends on seed and position alone."""

import numpy as np
import pytest

from vitzoo.data import draws
from vitzoo.data.augment import augment_image, inception_window, shift_and_flip
from vitzoo.data.images import resize_eval
from vitzoo.data.randaugment import OPERATIONS, color_jitter, randaugment
from vitzoo.data.settings import Augment, Preprocessing
from vitzoo.errors import Refused

NOISE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
EVERYTHING = Augment(crop="inception", flip=True, randaugment_layers=2, color_jitter=0.4)


def varied(augment: Augment, position: int, seed: int = 0, image: np.ndarray = NOISE, size=(24, 32)) -> np.ndarray:
    return augment_image(image, size, augment, Preprocessing(), seed, position)


def test_an_image_depends_on_seed_and_position_alone():
    assert (varied(EVERYTHING, 5) == varied(EVERYTHING, 5)).all()
    assert (varied(EVERYTHING, 5) != varied(EVERYTHING, 6)).any()
    assert (varied(EVERYTHING, 5) != varied(EVERYTHING, 5, seed=1)).any()


@pytest.mark.parametrize("crop", ["none", "inception", "resize_random", "shift"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_crop_gives_the_size_in_colour_and_grey(crop, channels):
    augment = Augment(crop=crop, shift=2 * (crop == "shift"), flip=True, randaugment_layers=2, color_jitter=0.3)
    for position in range(20):
        image = varied(augment, position, image=NOISE[..., :channels])
        assert image.shape == (24, 32, channels)
        assert image.dtype == np.uint8


def test_without_augmentation_an_image_is_as_in_evaluation():
    assert (varied(Augment(), 3) == resize_eval(NOISE, (24, 32), Preprocessing())).all()


def test_half_of_the_images_are_flipped():
    images = np.tile(np.arange(4, dtype=np.uint8)[None, None, :, None], (10_000, 1, 1, 1))
    flipped = shift_and_flip(images, Augment(flip=True), 0, np.arange(10_000))
    assert set(map(tuple, flipped[:, 0, :, 0].tolist())) == {(0, 1, 2, 3), (3, 2, 1, 0)}
    assert abs((flipped[:, 0, 0, 0] == 3).mean() - 0.5) < 0.02  # four deviations of 0.005


def test_shifts_are_uniform_over_all_places_and_open_onto_black():
    image = np.zeros((1, 5, 5, 1), np.uint8)
    image[0, 2, 2] = 255
    moved = shift_and_flip(np.repeat(image, 25_000, 0), Augment(crop="shift", shift=2), 0, np.arange(25_000))
    places = moved.reshape(25_000, 25).argmax(1)
    assert (moved.reshape(25_000, -1).astype(int).sum(1) == 255).all()
    assert np.abs(np.bincount(places, minlength=25) - 1000).max() < 4.5 * 1000**0.5


def test_a_batch_varies_as_its_examples_do_one_by_one():
    augment = Augment(crop="shift", shift=3, flip=True)
    images = np.stack([np.roll(NOISE, number, 0) for number in range(9)])
    positions = np.arange(100, 109)
    whole = shift_and_flip(images, augment, 7, positions)
    for image, position, expected in zip(images, positions, whole, strict=True):
        assert (varied(augment, int(position), 7, image, NOISE.shape[:2]) == expected).all()


def test_inception_windows_have_the_areas_and_aspects_of_the_paper():
    rng = np.random.default_rng(0)
    windows = np.array([inception_window(300, 300, (0.05, 1.0), rng) for _ in range(4000)])
    top, left, height, width = windows.T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 300).all()
    assert (left + width <= 300).all()
    whole = (height == 300) & (width == 300)
    aspects, areas = (width / height)[~whole], (width * height / 90_000)[~whole]
    assert 0.74 < aspects.min() < 0.78
    assert 1.28 < aspects.max() < 1.35
    assert 0.045 < areas.min() < 0.07
    assert areas.max() > 0.95
    assert abs(np.median(np.log(aspects))) < 0.03


def test_an_area_that_no_window_of_the_image_fits_takes_the_whole():
    assert inception_window(10, 1000, (0.99, 1.0), np.random.default_rng(0)) == (0, 0, 10, 1000)


def test_uniform_draws_are_uniform_and_their_streams_unrelated():
    positions = np.arange(50_000)
    one, two = draws.uniform(0, positions, 0), draws.uniform(0, positions, 1)
    assert one.min() >= 0
    assert one.max() < 1
    assert np.abs(np.histogram(one, 10, (0, 1))[0] - 5000).max() < 4.5 * 4500**0.5
    for other in (two, draws.uniform(1, positions, 0), np.roll(one, 1)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.02


def test_every_operation_of_randaugment_changes_an_image_at_full_strength():
    from vitzoo.data.images import from_pil, to_pil

    pale = np.clip(NOISE, 60, 240)  # so that contrast can be stretched
    for number, operation in enumerate(OPERATIONS):
        changed = [from_pil(operation(to_pil(pale), 0.9, np.random.default_rng(seed))) for seed in range(3)]
        assert all(image.shape == pale.shape for image in changed), number
        assert any((image != pale).any() for image in changed), number


def test_randaugment_draws_all_of_its_operations():
    assert len(OPERATIONS) == 16
    made = {randaugment(NOISE, 1, 9.0, np.random.default_rng(seed)).tobytes() for seed in range(200)}
    assert len(made) > 30


@pytest.mark.parametrize("magnitude", [0.0, 10.0, 15.0, 20.0, 30.0])
def test_randaugment_works_at_every_published_magnitude(magnitude):
    for seed in range(60):
        assert randaugment(NOISE[..., :1], 2, magnitude, np.random.default_rng(seed)).shape == (40, 60, 1)


def test_colour_jitter_scales_brightness_within_its_strength():
    flat = np.full((4, 4, 3), 100, np.uint8)
    means = [color_jitter(flat, 0.3, np.random.default_rng(seed)).mean() for seed in range(300)]
    assert 69 <= min(means) < 75
    assert 125 < max(means) <= 131


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"crop": "shift"}, "shift = 0: crop=shift needs a number of pixels"),
        ({"shift": 3}, "shift = 3: acts with crop=shift only"),
        ({"crop_area": (0.5, 0.1)}, "crop_area"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(Refused, match=message):
        Augment(**settings).check()
