"""A table of as many positions as fill a square is of a square, whatever image size a user asks for; and reading at
another size gives what converting first and then reading at that size gives.
"""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from made_checkpoint import make_run

import vitzoo
from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.models.vit import Config
from vitzoo.nn import state
from vitzoo.nn.paths import flatten
from vitzoo.weights.open import open_weights

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
SQUARE = Config(
    patch_size=2, width=12, depth=1, mlp_dim=48, num_heads=3, num_classes=0, image_size=8, channels=3, gelu="exact"
)
FORMS = {
    "timm-vit": {},
    "hf-vit": {},
    "torchvision-vit": {},
    "vision_transformer": {"gelu": "tanh"},
    "big_vision": {"gelu": "tanh", "pooling": "gap"},
}
HEADS = {"num_heads": 3}


def quietly(*arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([str(one) for one in arguments]) == 0


def table_at(checkpoint, **given):
    """The positions of a model at some size, and its image size."""
    model, info = vitzoo.load(str(checkpoint), **given)
    table = flatten(state.split(model)[1])["positions/embedding"]
    return np.asarray(table), info.size


def changed(**fields):
    return Config(**{**{name: getattr(SQUARE, name) for name in SQUARE.__dataclass_fields__}, **fields})


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A model of 4 × 4 patches in every format that is written; without a config where the format has none."""
    root = tmp_path_factory.mktemp("published")
    for form, fields in FORMS.items():
        make_run(root / f"run-{form}", changed(**fields), None)
        quietly("convert", root / f"run-{form}", root / form, "--format", form)
    quietly("convert", root / "run-timm-vit", root / "timm-vit alone", "--format", "timm-vit")
    (root / "timm-vit alone" / "config.json").unlink()
    return root


@pytest.mark.slow
@pytest.mark.parametrize("form", [*FORMS, "timm-vit alone"])
def test_both_ways_to_another_size_of_as_many_patches_give_one_model(form, published, tmp_path):
    given = [] if form not in ("timm-vit alone", "torchvision-vit") else ["--config.model.num_heads=3"]
    stated = HEADS if given else {}
    quietly("convert", published / form, tmp_path / "ours", *given)
    before, size = table_at(tmp_path / "ours")
    assert size == (8, 8)
    at_once, size = table_at(published / form, image_size=(4, 16), **stated)
    later, _ = table_at(tmp_path / "ours", image_size=(4, 16))
    assert size == (4, 16)
    np.testing.assert_array_equal(at_once, later)
    assert not np.array_equal(at_once, before)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("facebook-vit/dino", HEADS),
        ("facebook-vit/deit3", HEADS),
        ("facebook-vit/deit_distilled", HEADS),
        ("facebook-vit/mae", HEADS),
        ("vit-pytorch/cls", HEADS),
        ("vit-pytorch/mean", HEADS),
        ("vision_transformer/token.npz", {}),
        ("big_vision/separate.npz", {}),
        ("big_vision/inlined.npz", {}),
        ("big_vision/flexible.npz", {}),
    ],
)
def test_a_stated_size_does_not_make_a_square_oblong(name, given):
    path = GOLDENS / name
    if path.is_dir():
        path = next(file for file in path.iterdir() if file.suffix in (".pth", ".pt", ".safetensors"))
    plain = open_weights(path, given).description["model"]
    side, patch = plain["image_size"][0], plain["patch_size"]
    rows = side // (patch if isinstance(patch, int) else patch[0])
    assert tuple(plain["image_size"]) == (side, side)
    stated = {"image_size": (side // rows, side * rows)}  # one row of patches
    assert open_weights(path, given | stated).description["model"] == plain


def test_a_corner_of_a_square_stays_a_corner(tmp_path):
    """The ramp 0 .. 195 on 14 × 14 places, read at 7 × 28: corner on corner, 0, 13, 182 and 195."""
    config = changed(image_size=28, gelu="tanh", pooling="gap")
    make_run(tmp_path / "run", config, None)
    quietly("convert", tmp_path / "run", tmp_path / "out", "--format", "big_vision")
    with np.load(tmp_path / "out" / "model.npz") as file:
        arrays = dict(file)
    ramp = np.arange(196, dtype=np.float32)[None, :, None]
    np.savez(tmp_path / "ramp.npz", **arrays | {"params/pos_embedding": np.repeat(ramp, 12, axis=2)})
    table, _ = table_at(tmp_path / "ramp.npz", image_size=(14, 56))
    corners = table[0, :, 0].reshape(7, 28)[[0, 0, -1, -1], [0, -1, 0, -1]]
    np.testing.assert_allclose(corners, [0, 13, 182, 195], atol=1e-4)


@pytest.mark.parametrize("form", ["vision_transformer", "big_vision", "torchvision-vit"])
def test_an_oblong_grid_of_as_many_patches_as_a_square_has_no_place_where_no_size_is_kept(form, tmp_path, capsys):
    make_run(tmp_path / "run", changed(**FORMS[form], image_size=(4, 16)), None)
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "out"), "--format", form]) == 2
    assert "they would be read as 4 × 4" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["timm-vit", "hf-vit"])
def test_what_the_file_itself_says_counts(form, tmp_path):
    make_run(tmp_path / "run", changed(image_size=(4, 16)), None)
    quietly("convert", tmp_path / "run", tmp_path / "out", "--format", form)
    table, size = table_at(tmp_path / "out")
    assert size == (4, 16)
    np.testing.assert_array_equal(table, table_at(tmp_path / "run")[0])
    rule = {"position_resize": "bicubic", "position_antialias": form == "timm-vit"}
    right, _ = table_at(tmp_path / "run", image_size=8, **rule)
    np.testing.assert_array_equal(table_at(tmp_path / "out", image_size=8)[0], right)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["vision_transformer", "big_vision", "torchvision-vit"])
def test_other_counts_take_the_stated_size(form, tmp_path):
    make_run(tmp_path / "run", changed(**FORMS[form], image_size=(4, 12)), None)
    quietly("convert", tmp_path / "run", tmp_path / "out", "--format", form)
    given = HEADS if form == "torchvision-vit" else {}
    with pytest.raises(UserError, match="give image_size"):
        table_at(tmp_path / "out", **given)
    table, size = table_at(tmp_path / "out", image_size=(4, 12), **given)
    assert size == (4, 12)
    np.testing.assert_array_equal(table, table_at(tmp_path / "run")[0])
