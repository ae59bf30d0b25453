"""Variations of training images: their ranges, and that each depends on seed and position alone."""

import numpy as np
import pytest

from vitzoo.data import draws
from vitzoo.data import randaugment_increasing as increasing
from vitzoo.data.augment import augment_image, inception_window, shift_and_flip, three_augment
from vitzoo.data.images import from_pil, resize_eval, to_pil
from vitzoo.data.randaugment import OPERATIONS, color_jitter, randaugment
from vitzoo.data.settings import Augment, Preprocessing
from vitzoo.errors import UserError

NOISE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
EVERYTHING = Augment(crop="inception", flip=True, randaugment_layers=2, color_jitter=0.4)


def varied(augment: Augment, position: int, seed: int = 0, image: np.ndarray = NOISE, size=(24, 32)) -> np.ndarray:
    return augment_image(image, size, augment, Preprocessing(), seed, position)


def test_an_image_depends_on_seed_and_position_alone():
    assert (varied(EVERYTHING, 5) == varied(EVERYTHING, 5)).all()
    assert (varied(EVERYTHING, 5) != varied(EVERYTHING, 6)).any()
    assert (varied(EVERYTHING, 5) != varied(EVERYTHING, 5, seed=1)).any()


@pytest.mark.parametrize("crop", ["none", "inception", "resize_random", "simple", "shift"])
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


def test_the_larger_frame_of_a_random_crop_is_as_large_as_asked():
    # 448 for 384 is 7 / 6; here 28 for 24. The centre crop of evaluation takes no part
    steps = np.arange(28, dtype=np.uint8)[None, :, None].repeat(28, 0)
    augment, evaluation = Augment(crop="resize_random", crop_scale=7 / 6), Preprocessing(crop_fraction=24 / 28)
    lefts = {int(augment_image(steps, (24, 24), augment, evaluation, 0, position)[0, 0, 0]) for position in range(200)}
    assert lefts == {0, 1, 2, 3, 4}


def test_the_simple_crop_is_a_window_of_the_covering_image_with_four_reflected_pixels_around():
    # Touvron et al. 2022, section 3.2, and their code: resize the short side, pad, crop
    image = NOISE[:20, :40]
    frame = np.pad(image, [(4, 4), (4, 4), (0, 0)], "reflect")
    windows = {frame[t : t + 20, x : x + 20].tobytes(): (t, x) for t in range(9) for x in range(29)}
    found = {windows[varied(Augment(crop="simple"), p, image=image, size=(20, 20)).tobytes()] for p in range(3000)}
    assert len(found) == 9 * 29


def test_three_augment_is_greyscale_solarize_or_blur_equally_often():
    # Touvron et al. 2022: greyscale by ITU-R 601, solarize at 128, a Gaussian of radius 0.1 to 2
    grey = np.rint(NOISE @ [0.299, 0.587, 0.114])
    solar = np.where(NOISE < 128, NOISE, 255 - NOISE)
    counts = np.zeros(3, int)
    for seed in range(600):
        made = three_augment(NOISE, np.random.default_rng(seed))
        if (made == solar).all():
            counts[1] += 1
        elif np.abs(made - grey[..., None]).max() <= 1:
            counts[0] += 1
        else:  # a blurred image has less contrast and the same mean
            counts[2] += 1
            assert made.std() <= NOISE.std() + 0.5
            assert abs(made.mean() - NOISE.mean()) < 1.5
    assert np.abs(counts - 200).max() < 4.5 * (600 * 2 / 9) ** 0.5
    assert (three_augment(NOISE[..., :1], np.random.default_rng(0)).shape) == (40, 60, 1)


def test_increasing_operations_have_the_levels_of_timm():
    # timm/data/auto_augment.py, the table of `inc` operations, at the highest level
    ramp = to_pil(np.arange(256, dtype=np.uint8).reshape(16, 16, 1))

    def at(number, level, seed=0):
        return from_pil(increasing.OPERATIONS[number](ramp, level, np.random.default_rng(seed))).ravel()

    assert len(increasing.OPERATIONS) == 15
    values = np.arange(256)
    for level, bits in ((0.0, 4), (0.5, 2), (0.9, 1)):
        assert (at(4, level) == values & (256 - 2 ** (8 - bits))).all()
    for level, threshold in ((0.0, 256), (0.9, 26), (1.0, 0)):
        assert (at(5, level) == np.where(values < threshold, values, 255 - values)).all()
    assert (at(6, 0.9) == np.where(values < 128, values + 99, values)).all()  # int(0.9 * 110)
    bright = {int(at(9, 1.0, seed)[100]) for seed in range(20)}
    assert bright == {10, 190}  # 1 - 0.9 and 1 + 0.9
    moved = {int((at(13, 0.5, seed).reshape(16, 16) == 128).sum(1).min()) for seed in range(20)}
    assert max(moved) >= 3  # int(0.225 * 16) columns of grey come in


def test_increasing_operations_are_left_out_half_of_the_time():
    pale = np.clip(NOISE, 60, 240)
    made = [increasing.randaugment_increasing(pale, 1, 9, 0.5, np.random.default_rng(seed)) for seed in range(1000)]
    same = np.mean([(image == pale).all() for image in made])
    assert 0.44 < same < 0.56  # of 1000, four deviations of 0.016; few operations change nothing
    augment = Augment(randaugment_layers=2, randaugment_increasing=True, randaugment_std=0.5)
    assert (varied(augment, 5) == varied(augment, 5)).all()


def test_uniform_draws_are_uniform_and_their_streams_unrelated():
    positions = np.arange(50_000)
    one, two = draws.uniform(0, positions, 0), draws.uniform(0, positions, 1)
    assert one.min() >= 0
    assert one.max() < 1
    assert np.abs(np.histogram(one, 10, (0, 1))[0] - 5000).max() < 4.5 * 4500**0.5
    for other in (two, draws.uniform(1, positions, 0), np.roll(one, 1)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.02


def test_every_operation_of_randaugment_changes_an_image_at_full_strength():
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
        ({"randaugment_std": 0.5}, "randaugment_std = 0.5: acts with randaugment_increasing=true"),
        ({"crop_area": (0.5, 0.1)}, "crop_area"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Augment(**settings).check()
