"""Where an odd margin is cut, and what becomes of fractions of resized pixels: each family's own rule."""

import json

import numpy as np
import pytest
from PIL import Image

from vitzoo.cli import main
from vitzoo.data.augment import augment_image
from vitzoo.data.images import pixel_type, resize, resize_eval
from vitzoo.data.settings import Augment, Preprocessing


def columns(margin: int, side: int = 8) -> np.ndarray:
    """An image whose columns hold their own number."""
    return np.broadcast_to(np.arange(side + margin, dtype=np.uint8)[None, :, None], (side, side + margin, 1))


# torchvision's and timm's rule is Python's round(margin / 2), which of 1.5 makes 2 and of 2.5 makes 2; transformers
# and big_vision divide by 2 without a rest
@pytest.mark.parametrize(
    ("offset", "begins"), [("half_even", [0, 0, 1, 2, 2, 2, 3, 4]), ("floor", [0, 0, 1, 1, 2, 2, 3, 3])]
)
def test_an_odd_margin_is_cut_by_the_rule(offset, begins):
    rule = Preprocessing(resize="short_side_crop", crop_offset=offset)
    assert [int(resize_eval(columns(margin), (8, 8), rule)[0, 0, 0]) for margin in range(8)] == begins
    turned = [resize_eval(columns(margin).transpose(1, 0, 2), (8, 8), rule)[0, 0, 0] for margin in range(8)]
    assert turned == begins


# one row of 1 and 4 read at 3/4 of the way, 3.25, and at 1/4, 1.75
@pytest.mark.parametrize(
    ("rounding", "right"), [("round", [1, 2, 3, 4]), ("cut", [1, 1, 3, 4]), ("none", [1, 1.75, 3.25, 4])]
)
@pytest.mark.parametrize("antialias", [True, False])  # a larger image is the same by both
@pytest.mark.parametrize("channels", [1, 3])
def test_fractions_of_levels_are_rounded_cut_off_or_kept(rounding, right, antialias, channels):
    image = np.repeat(np.array([[[1], [4]]], np.uint8), channels, axis=-1)
    found = resize(image, (1, 4), Preprocessing(antialias=antialias, rounding=rounding))
    assert found.dtype == pixel_type(Preprocessing(rounding=rounding))
    for channel in range(channels):
        assert found[0, :, channel].tolist() == right


@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("antialias", [True, False])
def test_a_plain_picture_stays_what_it_is_when_fractions_are_cut_off(method, antialias):
    rule = Preprocessing(interpolation=method, antialias=antialias, rounding="cut")
    for level in (1, 100, 254, 255):
        image = np.full((13, 29, 3), level, np.uint8)
        assert (resize_eval(image, (7, 31), rule) == level).all()
        assert (resize_eval(image, (17, 5), rule) == level).all()


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("antialias", [True, False])
def test_cutting_is_the_whole_part_of_what_is_kept(method, antialias):
    image = np.random.default_rng(0).integers(0, 256, (31, 23, 3), np.uint8)
    kept, cut, whole = (
        resize_eval(image, (14, 15), Preprocessing(interpolation=method, antialias=antialias, rounding=rounding))
        for rounding in ("none", "cut", "round")
    )
    assert kept.dtype == np.float32
    np.testing.assert_array_equal(cut, np.clip(kept, 0, 255).astype(np.uint8))
    if not antialias:  # PIL rounds and clips after each of its two passes
        assert np.abs(whole - np.clip(kept, 0, 255)).max() <= 0.5


@pytest.mark.parametrize(
    "augment", [{}, {"crop": "inception"}, {"crop": "simple", "flip": True}, {"crop": "shift", "shift": 2}]
)
@pytest.mark.parametrize("rounding", ["round", "cut", "none"])
def test_training_rounds_as_evaluation_does(augment, rounding):
    image = np.random.default_rng(0).integers(0, 256, (31, 23, 3), np.uint8)
    rule = Preprocessing(rounding=rounding, antialias=False)
    made = augment_image(image, (12, 12), Augment(**augment), rule, seed=0, position=1)
    assert made.dtype == pixel_type(rule)
    assert (made != np.rint(made)).any() == (rounding == "none")
    coloured = augment_image(image, (12, 12), Augment(**augment, randaugment_layers=1), rule, seed=0, position=1)
    assert coloured.dtype == pixel_type(rule)


def test_an_image_of_the_models_size_is_of_the_same_type():
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    for rounding in ("round", "cut", "none"):
        found = resize_eval(image, (4, 4), Preprocessing(rounding=rounding))
        assert found.dtype == pixel_type(Preprocessing(rounding=rounding))
        np.testing.assert_array_equal(found, image)


@pytest.mark.slow
def test_both_rules_go_from_the_config_through_a_run_to_its_checkpoint(tmp_path, capsys):
    """A run that keeps fractions, evaluated, asked, and its model.json."""
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(6):
            random = np.random.default_rng([index, ord(name[0])])
            Image.fromarray(random.integers(0, 256, (9, 12, 3), np.uint8)).save(
                tmp_path / "photos" / name / f"{index}.png"
            )
    workdir = tmp_path / "run"
    model = ["variant=Ti/4", "depth=1", "width=12", "mlp_dim=12", "num_heads=3", "image_size=8"]
    settings = [f"model.{one}" for one in model]
    settings += [f"data.name=folder:{tmp_path / 'photos'}", "data.batch_size=8", "total_steps=2", "data.split=train"]
    settings += ["inputs.image.rounding=none", "inputs.image.crop_offset=half_even"]
    settings += ["inputs.image.resize=short_side_crop", "checkpoint.keep_best="]
    (tmp_path / "plain.py").write_text(
        "import vitzoo\n\n\ndef get_config(arg=''):\n    config = vitzoo.config.default()\n"
        "    config.model = dict(name='vit')\n"
        "    config.evaluate = dict(test=dict(name='classification', split='validation'))\n"
        "    return config\n"
    )
    flags = [f"--config.{one}" for one in settings]
    assert main(["train", "--config", str(tmp_path / "plain.py"), "--workdir", str(workdir), *flags]) == 0
    (description,) = workdir.glob("checkpoints/2/**/model.json")
    images = json.loads(description.read_text())["inputs"]["image"]
    assert (images["rounding"], images["crop_offset"]) == ("none", "half_even")
    assert main(["predict", "--checkpoint", str(workdir), str(tmp_path / "photos" / "cat" / "0.png")]) == 0
    assert main(["eval", "--workdir", str(workdir)]) == 0
    assert "not rounded" in capsys.readouterr().out
