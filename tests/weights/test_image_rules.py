"""Each format's own rules of images, in and out: where a crop begins, what becomes of fractions of pixels."""

import contextlib
import io
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from made_checkpoint import TINY, make_run

import vitzoo
from vitzoo.cli import main
from vitzoo.data.images import resample_points
from vitzoo.data.processors.image import preprocessing_of
from vitzoo.data.user_inputs import Input
from vitzoo.weights.open import open_weights

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
# of each format two files, with what must be said besides: crop_offset and rounding
RULES = {
    "timm-vit/alone": ({"num_heads": 3}, "half_even", "round"),
    "timm-vit/deit3": ({}, "half_even", "round"),
    "timm-vit/clip": ({}, "half_even", "round"),
    "facebook-vit/dino": ({"num_heads": 3}, "half_even", "round"),
    "facebook-vit/deit3": ({"num_heads": 3}, "half_even", "round"),
    "facebook-vit/mae": ({"num_heads": 3}, "half_even", "round"),
    "torchvision-vit/plain": ({"num_heads": 3}, "half_even", "round"),
    "torchvision-vit/representation": ({"num_heads": 3}, "half_even", "round"),
    "hf-vit/dino": ({}, "floor", "round"),
    "hf-vit/deit": ({}, "floor", "round"),
    "hf-vit/dinov2": ({}, "floor", "round"),
    "hf-vit/siglip": ({}, "floor", "round"),
    "vision_transformer/token.npz": ({}, "floor", "none"),
    "big_vision/separate.npz": ({}, "floor", "cut"),
    "big_vision/oblong.npz": ({}, "floor", "cut"),
}


def weights_at(name):
    """The file in a golden's folder, or the folder where a config lies beside it."""
    path = GOLDENS / name
    found = [file for file in path.iterdir() if file.suffix in (".pth", ".pt")] if path.is_dir() else []
    found += [] if not path.is_dir() or (path / "config.json").exists() or found else path.glob("*.safetensors")
    return found[0] if found else path


def preprocessing_at(name, given=None):
    return open_weights(weights_at(name), given).description["inputs"]["image"]


@pytest.mark.parametrize("name", RULES)
def test_a_published_file_has_the_rules_of_its_code(name):
    given, offset, rounding = RULES[name]
    found = preprocessing_at(name, given)
    assert (found["crop_offset"], found["rounding"]) == (offset, rounding)


@pytest.mark.parametrize("name", ["hf-vit/dinov2", "timm-vit/deit3", "vision_transformer/token.npz"])
def test_converting_keeps_them(name, tmp_path):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["convert", str(weights_at(name)), str(tmp_path / "ours")]) == 0
    assert preprocessing_at(tmp_path / "ours") == preprocessing_at(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "settings", "notes"),
    [
        ("timm-vit", {}, []),
        (
            "timm-vit",
            {"resize": "short_side_crop"},
            ["timm cuts an odd margin by crop_offset=half_even, here it was floor"],
        ),
        ("timm-vit", {"resize": "short_side_crop", "crop_offset": "half_even"}, []),
        ("timm-vit", {"crop_fraction": 8 / 11}, ["timm cuts an odd margin"]),  # of 3 pixels, 1 and 2 before
        ("timm-vit", {"crop_fraction": 8 / 13}, []),  # of 5, both 2
        ("timm-vit", {"antialias": False, "rounding": "cut"}, ["timm smooths", "timm rounds resized pixels"]),
        ("hf-vit", {"resize": "short_side_crop"}, []),
        ("hf-vit", {"resize": "short_side_crop", "crop_offset": "half_even"}, ["transformers cuts an odd margin"]),
        ("hf-vit", {"rounding": "none"}, ["transformers rounds resized pixels"]),
    ],
)
def test_what_another_program_will_do_otherwise_is_said(form, settings, notes, tmp_path, capsys):
    make_run(tmp_path / "run", TINY, preprocessing=settings)
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "out"), "--format", form]) == 0
    printed = "".join(capsys.readouterr())
    for note in notes:
        assert note in printed
    words = ("odd margin", "smooths", "rounds resized")
    assert sum(printed.count(word) for word in words) == len(notes)


def test_a_checkpoint_from_before_has_the_rules_that_it_was_trained_with(tmp_path):
    make_run(tmp_path / "run")
    (file,) = (tmp_path / "run").glob("checkpoints/*/model.json")
    assert not {"crop_offset", "rounding"} & set(json.loads(file.read_text())["inputs"]["image"])
    now = preprocessing_of(open_weights(tmp_path / "run").description)
    assert (now.crop_offset, now.rounding) == ("floor", "round")


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["cut", "none"])
def test_predictions_are_of_pixels_by_the_checkpoints_rule(rounding, tmp_path):
    make_run(tmp_path / "run", TINY, preprocessing={"rounding": rounding, "antialias": False})
    image = np.random.default_rng(0).integers(0, 256, (11, 13), np.uint8)
    model, info = vitzoo.load(str(tmp_path / "run"))
    exact = resample_points(image[..., None], (8, 8), "bilinear")
    pixels = {"cut": np.floor(exact), "none": exact}[rounding]
    right = jax.nn.softmax(model((pixels[None] - 127.5) / 127.5))
    np.testing.assert_array_equal(info.processor.example(Input({}, image), info.config)["image"], pixels)
    found = vitzoo.predict(str(tmp_path / "run"), image, top=10)[0]["top"]
    for one in found:
        np.testing.assert_allclose(one["probability"], right[0, one["index"]], rtol=1e-5)
