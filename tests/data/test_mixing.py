"""What the device does to a batch: scaling, erasing, mixup, CutMix."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.data.mixing import erase, make_prepare
from vitzoo.data.settings import Augment, Preprocessing
from vitzoo.errors import UserError

PLAIN = Preprocessing()


def batch(count: int, weight=None) -> dict:
    """Image i is all 255 * (i % 2), of class i."""
    image = np.zeros((count, 8, 8, 1), np.uint8) + (np.arange(count, dtype=np.uint8) % 2 * 255)[:, None, None, None]
    weight = np.ones(count) if weight is None else weight
    return {
        "image": jnp.asarray(image),
        "label": jnp.arange(count, dtype=jnp.int32),
        "example_weight": jnp.asarray(weight, jnp.float32),
        "id": jnp.arange(count),
    }


@functools.cache
def prepared(augment: Augment, classes: int = 7):
    return jax.jit(make_prepare(augment, PLAIN, classes))


def test_pixels_become_minus_one_to_one():
    image = jnp.array([0, 51, 255], jnp.uint8).reshape(1, 1, 3, 1)
    made = make_prepare(None, PLAIN, 2)({"image": image}, None)["image"]
    assert made.dtype == jnp.float32
    assert made.ravel().tolist() == pytest.approx([-1, -0.6, 1], abs=1e-7)


def test_mean_and_deviation_are_on_the_0_to_255_scale_for_each_channel():
    image = jnp.full((1, 1, 1, 3), 100, jnp.uint8)
    made = make_prepare(None, Preprocessing(mean=(100, 90, 80), std=(10, 10, 40)), 2)({"image": image}, None)["image"]
    assert made.ravel().tolist() == pytest.approx([0, 1, 0.5])


def test_three_means_for_a_grey_image_are_refused():
    with pytest.raises(UserError, match=r"inputs.image.mean = .* doesn't fit images of 1 channel"):
        make_prepare(None, Preprocessing(mean=(1, 2, 3)), 2)({"image": jnp.zeros((1, 2, 2, 1), jnp.uint8)}, None)


def test_without_a_key_nothing_is_varied():
    made = make_prepare(Augment(mixup=0.5, random_erasing=1.0), PLAIN, 4)(batch(4), None)
    assert made["label"].tolist() == [0, 1, 2, 3]
    assert (made["image"] == make_prepare(None, PLAIN, 4)(batch(4), None)["image"]).all()


BOTH = Augment(mixup=0.2, cutmix=1.0)


@pytest.mark.parametrize(
    ("count", "augment"),
    [
        pytest.param(7, Augment(mixup=1.0), marks=pytest.mark.slow),
        pytest.param(7, Augment(cutmix=1.0), marks=pytest.mark.slow),
        (7, BOTH),
        pytest.param(4, BOTH, marks=pytest.mark.slow),
        (1, BOTH),
    ],
)
def test_labels_say_how_much_of_each_image_there_is_for_any_batch_size(count, augment):
    for seed in range(5):
        made = prepared(augment)(batch(count), jax.random.key(seed))
        assert np.allclose(made["label"].sum(1), 1, atol=1e-6)
        bright = (np.asarray(made["image"]).mean((1, 2, 3)) + 1) / 2  # share of odd images
        assert np.allclose(bright, made["label"][:, 1::2].sum(1), atol=1e-5)
        assert np.allclose(made["example_weight"], 1)


def test_mixup_blends_and_cutmix_pastes():
    blended = prepared(Augment(mixup=1.0))(batch(7), jax.random.key(1))["image"]
    pasted = prepared(Augment(cutmix=1.0))(batch(7), jax.random.key(1))["image"]
    assert len(np.unique(np.round(blended, 4))) > 2
    assert set(np.unique(pasted).tolist()) == {-1.0, 1.0}


def test_rows_of_weight_0_take_no_part():
    weight = np.array([1, 0, 1, 0, 1, 1, 0])
    for augment in (Augment(mixup=1.0), Augment(cutmix=1.0)):
        for seed in range(10):
            made = prepared(augment)(batch(7, weight), jax.random.key(seed))
            assert made["example_weight"].tolist() == weight.tolist()
            assert np.asarray(made["label"])[weight == 1][:, weight == 0].sum() == 0


def test_shares_are_drawn_from_beta():
    shares = [
        float(prepared(Augment(mixup=0.2), 2)(batch(2), jax.random.key(seed))["label"][0, 0]) for seed in range(400)
    ]
    mixed = np.array([share for share in shares if share < 1])
    # Of Beta(0.2, 0.2): variance 1 / (4 (2 * 0.2 + 1)) = 0.1786, and 0.327 of the mass lies in 0.1 .. 0.9.
    assert abs(mixed.var() - 0.1786) < 0.03
    assert abs(((mixed > 0.1) & (mixed < 0.9)).mean() - 0.327) < 0.14


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 7, 12])
def test_each_row_is_mixed_with_the_one_half_a_batch_before_it(count):
    # copies of an image stand next to each other, and must not be mixed with themselves
    label = np.asarray(prepared(Augment(mixup=1.0), count)(batch(count), jax.random.key(0))["label"])
    partners = {(row, other) for row, other in zip(*np.nonzero(label > 1e-6), strict=True) if row != other}
    assert partners == {(row, (row - count // 2) % count) for row in range(count)}


def test_mixing_acts_on_the_share_of_batches_asked_for():
    acted = [
        bool(
            (
                np.asarray(
                    prepared(Augment(mixup=1.0, mix_probability=0.3))(batch(7), jax.random.key(seed))["label"]
                ).max(1)
                < 1
            ).any()
        )
        for seed in range(200)
    ]
    assert abs(np.mean(acted) - 0.3) < 0.13  # four deviations of 0.032


def test_several_labels_are_mixed_as_rows():
    labels = jnp.array([[1, 1, 0], [0, 0, 1]], jnp.float32)
    prepare = jax.jit(make_prepare(Augment(mixup=1.0), PLAIN, 3, multi_label=True))
    made = prepare({**batch(2), "label": labels}, jax.random.key(0))
    assert made["label"].shape == (2, 3)
    assert np.allclose(made["label"][:, 0], made["label"][:, 1])


def test_erasing_sets_one_rectangle_of_the_stated_area_to_the_mean():
    image = jnp.ones((2000, 32, 32, 3))
    made = np.asarray(jax.jit(erase, static_argnums=1)(image, 0.25, jax.random.key(0)))
    areas = (made[..., 0] == 0).mean((1, 2))
    assert abs((areas > 0).mean() - 0.25) < 0.04
    assert areas[areas > 0].min() > 0.01
    assert areas.max() < 0.36
    erased = made[areas > 0][0, ..., 0] == 0
    assert erased.sum() == erased.any(1).sum() * erased.any(0).sum()


@pytest.mark.gate
def test_the_mixture_is_the_same_on_one_device_and_on_eight():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.device_put(batch(16), jax.NamedSharding(mesh, jax.P("data")))
    augment = Augment(cutmix=1.0, random_erasing=0.5)
    one, eight = (prepared(augment, 16)(held, jax.random.key(3)) for held in (batch(16), spread))
    for key in one:
        assert np.allclose(one[key], eight[key], atol=1e-6), key
    # and no device is sent the whole batch
    program = prepared(augment, 16).lower(spread, jax.random.key(3)).compile().as_text()
    assert "collective-permute" in program
    assert "all-gather" not in program


def test_erasing_can_fill_with_normal_noise():
    image = jnp.full((50, 32, 32, 3), 7.0)
    made = np.asarray(jax.jit(erase, static_argnums=(1, 3))(image, 1.0, jax.random.key(0), True))
    filled = made[made != 7]
    assert abs(filled.mean()) < 0.04  # of 20,000 and more, five deviations of 0.007
    assert abs(filled.std() - 1) < 0.04
