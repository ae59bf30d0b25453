"""A model for pictures of three channels is made one for grey, and the other way: a picture without colour gives the
same numbers, whatever mean and deviation its channels are scaled by.
"""

import dataclasses

import jax
import numpy as np
import pytest
from made_checkpoint import make_run

import vitzoo
from vitzoo.cli import main
from vitzoo.data.processors.image import described_images
from vitzoo.data.settings import Preprocessing
from vitzoo.errors import UserError
from vitzoo.models.vit import Config, ViT
from vitzoo.nn import state
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.weights.transfer import match_head, scale_of, transfer

SMALL = Config(patch_size=4, width=12, depth=1, mlp_dim=12, num_heads=3, num_classes=3, image_size=8, channels=3)
IMAGENET = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
CLIP = {"mean": (122.7709383, 116.7460125, 104.09373615), "std": (68.5005327, 66.6321579, 70.32316305)}
KINDS = {
    "ViT": (SMALL, IMAGENET),
    "CLIP": (dataclasses.replace(SMALL, patch_bias=False, embedding_norm=True), CLIP),
    "padded": (dataclasses.replace(SMALL, image_size=(10, 6), pad_to_patch=True), IMAGENET),
    "padded CLIP": (dataclasses.replace(SMALL, image_size=10, pad_to_patch=True, patch_bias=False), CLIP),
    "sines": (dataclasses.replace(SMALL, positions="sincos2d", pooling="gap"), IMAGENET),
    "half": (dataclasses.replace(SMALL, patch_bias=False, positions="rotary"), {}),
}
"""A model and how its pixels are scaled."""


def grey_picture(config, seed=0):
    height, width, _ = config.image_shape
    return np.random.default_rng(seed).integers(0, 256, (height, width, 1), np.uint8)


def answer(model, images):
    return np.asarray(jax.jit(lambda images: model(images))(images))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [kind if kind in ("ViT", "padded CLIP") else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_a_grey_picture_is_to_a_grey_model_what_it_was_in_three_equal_channels(kind, tmp_path):
    config, scale = KINDS[kind]
    make_run(tmp_path / "run", config, ("a", "b", "c"), preprocessing=scale)
    before, info = vitzoo.load(str(tmp_path / "run"))
    after, grey = vitzoo.load(str(tmp_path / "run"), channels=1)
    picture = grey_picture(config)
    right = answer(before, info.preprocess(np.repeat(picture, 3, axis=2)))
    assert grey.channels == 1
    np.testing.assert_allclose(answer(after, grey.preprocess(picture)), right, rtol=1e-4, atol=1e-5)
    assert "3 → 1 channels, summed" in " ".join(grey.report.lines())


def onto(params, old, new, then, now):
    """Parameters of a Config and its scale under another."""
    scales = scale_of(Preprocessing(**then), old.channels), scale_of(Preprocessing(**now), new.channels)
    shapes = state.abstract(lambda rngs: ViT(new, rngs=rngs))[1]
    head = match_head(None, 3, None, 3)
    return transfer(params, old, new, shapes, model=ViT, head=head, fresh=dict, scales=scales)


def response(params, config, scale, pixels):
    """What the patch embedding, its bias and the patches' positions make of a picture [height, width, channels], by
    hand: [rows, columns, width].
    """
    flat = flatten(params)
    mean, std = (np.array(scale.get(field, (127.5,))) for field in ("mean", "std"))
    (height, width), (rows, columns), (down, right) = config.image_shape[:2], config.grid, config.patch_shape
    filled = np.zeros((rows * down, columns * right, pixels.shape[2]))
    filled[:height, :width] = (pixels - mean) / std
    patches = filled.reshape(rows, down, columns, right, -1)
    tokens = np.einsum("yrxck,rckd->yxd", patches, flat["patch_embedding/kernel"])
    tokens += flat.get("patch_embedding/bias", 0)
    table = flat["positions/embedding"][0, config.placed_prefix :]
    return tokens + table.reshape(rows, columns, -1)


@pytest.mark.parametrize("kind", ["ViT", "CLIP", "padded", "padded CLIP"])
@pytest.mark.parametrize("grey", [{}, {"mean": (100.0,), "std": (40.0,)}])
def test_grey_to_colour_and_back_under_any_scales_changes_no_response(kind, grey):
    config, scale = KINDS[kind]
    one = dataclasses.replace(config, channels=1)
    random = np.random.default_rng(1)
    shapes = flatten(state.abstract(lambda rngs: ViT(one, rngs=rngs))[1])
    params = unflatten({path: random.normal(size=leaf.shape).astype(np.float32) for path, leaf in shapes.items()})
    picture = grey_picture(config).astype(float)
    right = response(params, one, grey, picture)
    coloured, _ = onto(params, one, config, grey, scale)
    np.testing.assert_allclose(response(coloured, config, scale, np.repeat(picture, 3, axis=2)), right, atol=1e-4)
    back, _ = onto(coloured, config, one, scale, {"mean": (90.0,), "std": (70.0,)})
    again = response(back, one, {"mean": (90.0,), "std": (70.0,)}, picture)
    np.testing.assert_allclose(again, right, atol=1e-4)


def test_red_less_blue_of_a_flat_picture_is_the_difference_of_their_scales():
    one_pixel = dataclasses.replace(
        SMALL, patch_size=1, image_size=1, width=3, positions="none", pooling="gap", mlp_dim=3
    )
    shapes = flatten(state.abstract(lambda rngs: ViT(one_pixel, rngs=rngs))[1])
    flat = {path: np.zeros(leaf.shape, np.float32) for path, leaf in shapes.items()}
    flat["patch_embedding/kernel"][0, 0, :, 0] = 1, 0, -1
    grey = Preprocessing(mean=(114.495,), std=(57.63,))
    params, _ = onto(
        unflatten(flat), one_pixel, dataclasses.replace(one_pixel, channels=1), IMAGENET, dataclasses.asdict(grey)
    )
    found = flatten(params)
    value = (128 - 114.495) / 57.63 * found["patch_embedding/kernel"][0, 0, 0, 0] + found["patch_embedding/bias"][0]
    assert value == pytest.approx((128 - 123.675) / 58.395 - (128 - 103.53) / 57.375, abs=1e-6)  # -0.352428


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"patch_bias": False, "positions": "sincos2d", "pooling": "gap"}, "patch_bias=true makes a bias that can"),
        (
            {"positions": "rotary", "pad_to_patch": True, "image_size": 10},
            "image_size may be one that patch_size divides",
        ),
        ({"patch_norms": True}, "can't change under patch_norms"),
    ],
)
def test_what_can_not_be_made_up_for_is_refused_with_a_remedy(changes, remedy, tmp_path):
    config = dataclasses.replace(SMALL, **changes)
    make_run(tmp_path / "run", config, ("a", "b", "c"), preprocessing=IMAGENET)
    with pytest.raises(UserError, match=remedy):
        vitzoo.load(str(tmp_path / "run"), channels=1)


def test_a_bias_of_zeros_may_be_added_and_none_taken_away(tmp_path):
    config = dataclasses.replace(SMALL, patch_bias=False, positions="sincos2d", pooling="gap")
    make_run(tmp_path / "run", config, ("a", "b", "c"), preprocessing=IMAGENET)
    _, grey = vitzoo.load(str(tmp_path / "run"), channels=1, patch_bias=True)
    assert "patch_embedding/bias: the channels' mean" in " ".join(grey.report.lines())
    make_run(tmp_path / "other", SMALL, ("a", "b", "c"))
    with pytest.raises(UserError, match=r"model.patch_bias = False: can't change"):
        vitzoo.load(str(tmp_path / "other"), patch_bias=False)


@pytest.mark.slow
def test_training_on_grey_pictures_starts_from_the_same_response(tmp_path, capsys):
    """Digits have one channel; the config states a scale of its own."""
    make_run(tmp_path / "run", SMALL, ("a", "b", "c"), preprocessing=IMAGENET)
    (tmp_path / "tune.py").write_text(
        "import vitzoo\n\n\ndef get_config(arg=''):\n    config = vitzoo.config.default()\n"
        f"    config.init_from = {str(tmp_path / 'run')!r}\n    config.data = dict(name='digits', batch_size=8)\n"
        "    config.inputs.image = dict(mean=(90.0,), std=(70.0,))\n    config.total_steps = 1\n"
        "    config.optimizer = dict(learning_rate=1e-12)\n    return config\n"
    )
    settings = ["--config", str(tmp_path / "tune.py"), "--workdir", str(tmp_path / "tuned")]
    assert main(["train", *settings]) == 0
    assert "where they differ" in capsys.readouterr().out
    before, info = vitzoo.load(str(tmp_path / "run"), num_classes=0)
    after, grey = vitzoo.load(str(tmp_path / "tuned"), num_classes=0)
    assert grey.preprocessing.mean == (90.0,)
    picture = grey_picture(SMALL)
    right = answer(before, info.preprocess(np.repeat(picture, 3, axis=2)))
    np.testing.assert_allclose(answer(after, grey.preprocess(picture)), right, rtol=1e-4, atol=1e-4)


def test_model_json_says_one_mean_of_a_grey_model():
    made = described_images(Preprocessing(mean=(90.0,), std=(70.0,)), (8, 8), 1)
    assert (made["mean"], made["std"], made["channels"]) == ([90.0], [70.0], 1)
