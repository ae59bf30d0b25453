"""A checkpoint as a model: the right weights, classes and pixels; what isn't one is refused in a line."""

import dataclasses
import json

import jax
import numpy as np
import PIL.Image
import pytest
from made_checkpoint import DIGITS, TINY, make_run

import vitzoo
from vitzoo.data.processors.image import for_channels, preprocessing_of
from vitzoo.errors import UserError
from vitzoo.models.vit import ViT
from vitzoo.nn import state
from vitzoo.nn.paths import flatten
from vitzoo.weights.load import fitted


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    folder.mkdir()
    return folder, make_run(folder)


def same(params, model):
    _, got = state.split(model)
    left, right = flatten(params), flatten(got)
    assert left.keys() == right.keys()
    for path in left:
        np.testing.assert_array_equal(left[path], right[path])


def test_a_run_gives_its_moving_average_unless_the_raw_weights_are_asked_for(run):
    folder, average = run
    model, info = vitzoo.load(str(folder))
    same(average, model)
    assert (info.weights, info.step, info.classes, info.size, info.channels) == ("ema", 7, DIGITS, (8, 8), 1)
    raw, info = vitzoo.load(f"{folder}@7", weights="raw")
    assert info.weights == "raw"
    with pytest.raises(AssertionError):
        same(average, raw)


def test_a_run_is_found_from_where_one_stands(run, monkeypatch):
    monkeypatch.chdir(run[0].parent)
    model, _ = vitzoo.load("digits@best")
    same(run[1], model)


def test_three_lines_give_logits_of_an_image(run, tmp_path):
    PIL.Image.new("RGB", (20, 30), (255, 0, 0)).save(tmp_path / "a.png")
    model, info = vitzoo.load(str(run[0]))
    logits = model(info.preprocess([tmp_path / "a.png", np.zeros((8, 8), np.uint8)]))
    assert logits.shape == (2, 10)


def test_pixels_are_scaled_as_the_checkpoint_says(run):
    # weights with another scaling than theirs lost 5 to 20 points elsewhere: 0 → −1, 255 → +1
    _, info = vitzoo.load(str(run[0]))
    ramp = np.array([0, 255] * 32, np.uint8).reshape(8, 8)
    np.testing.assert_array_equal(np.unique(info.preprocess(ramp)), [-1, 1])
    assert info.preprocess(np.stack([ramp, ramp, ramp])[..., None]).shape == (3, 8, 8, 1)
    assert info.shown() == "8 × 8 × 1, squash, bilinear with antialias, mean 127.5, std 127.5"


def test_another_number_of_classes_gives_a_new_head_without_names(run):
    model, info = vitzoo.load(str(run[0]), num_classes=5)
    assert info.classes is None
    assert info.num_classes == 5
    assert not np.asarray(model.head.kernel[...]).any()
    assert "10 → 5, new, zero-initialised" in info.report.lines()[-1]


@pytest.mark.parametrize("field", ["image_size", "channels", "num_classes"])
def test_none_for_what_the_data_fill_in_leaves_what_the_checkpoint_has(run, field):
    model, info = vitzoo.load(str(run[0]), **{field: None})
    assert (info.size, info.channels, info.num_classes) == ((8, 8), 1, 10)
    assert getattr(model.config, field) == getattr(vitzoo.load(str(run[0]))[0].config, field)


def test_another_image_size_resizes_positions_and_pixels(run):
    model, info = vitzoo.load(str(run[0]), image_size=(16, 8))
    assert info.size == (16, 8)
    assert info.report.paths("resized") == ["positions/embedding"]
    assert jax.eval_shape(model, info.preprocess(np.zeros((5, 5), np.uint8))).shape == (1, 10)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"widht": 3}, "widht"),
        ({"depth": 3}, "model.depth"),
        ({"image_size": 9}, "image_size"),
        ({"patch_size": 3}, "patch_size 3"),
    ],
)
def test_changes_that_do_not_fit_are_refused_by_name(run, changes, field):
    with pytest.raises(UserError, match=field):
        vitzoo.load(str(run[0]), **changes)


def test_what_is_no_checkpoint_is_refused_in_one_line(run, tmp_path):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "weights.bin").write_bytes(b"123")
    (tmp_path / "file.npz").write_bytes(b"123")
    for name in ("missing", "foreign", "file.npz"):
        with pytest.raises(UserError) as refusal:
            vitzoo.load(str(tmp_path / name))
        assert name in str(refusal.value)
        assert "\n" not in str(refusal.value)
    with pytest.raises(UserError, match=r"step 8 is not in"):
        vitzoo.load(f"{run[0]}@8")


def test_a_flipped_bit_is_refused_not_loaded(tmp_path):
    make_run(tmp_path)
    files = [path for path in (tmp_path / "checkpoints" / "7" / "ema").rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(UserError, match=r"no checkpoint of it verifies: .*ema"):
        vitzoo.load(str(tmp_path))


def test_a_checkpoint_copied_out_of_its_run_still_loads(run, tmp_path):
    (run[0] / "checkpoints" / "7").rename(tmp_path / "anywhere")
    try:
        model, info = vitzoo.load(str(tmp_path / "anywhere"))
        assert info.step == 7
        same(run[1], model)
    finally:
        (tmp_path / "anywhere").rename(run[0] / "checkpoints" / "7")


def test_weights_that_are_not_there_are_refused(tmp_path):
    make_run(tmp_path, ema=False)
    assert vitzoo.load(str(tmp_path))[1].weights == "raw"
    with pytest.raises(UserError, match=r"weights = ema.*moving average"):
        vitzoo.load(str(tmp_path), weights="ema")


def test_mean_and_deviation_of_three_channels_are_averaged_for_one():
    values = {"resize": "squash", "interpolation": "bilinear", "antialias": True, "crop_fraction": 1.0}
    values |= {"mean": [120.0, 115.0, 110.0], "std": [60.0, 50.0, 40.0], "size": [8, 8], "channels": 3}
    grey = for_channels(preprocessing_of(values), 1)
    assert (grey.mean, grey.std) == ((115.0,), (50.0,))
    assert for_channels(preprocessing_of(values), 3).mean == (120.0, 115.0, 110.0)


def test_weights_are_fitted_to_a_model_for_other_data(run):
    from vitzoo.checkpoints.locate import locate
    from vitzoo.config.assembly import Assembly

    photos = dataclasses.replace(TINY, num_classes=4, channels=3, image_size=(16, 24), layer_scale=0.1)
    params, report, which = fitted(locate(run[0]), Assembly("vit", photos), ["a", "b", "c", "d"], weights="auto")
    assert which == "ema"
    assert report.paths("resized") == ["positions/embedding"]
    assert report.paths("adapted") == ["patch_embedding/kernel"]
    assert set(report.paths("new")) == {f"encoder/blocks/*/scale{i}" for i in (1, 2)} | {"head/bias", "head/kernel"}
    np.testing.assert_allclose(params["encoder"]["blocks"]["*"]["scale2"], 0.1)
    graph, _ = state.abstract(lambda rngs: ViT(photos, rngs=rngs))
    assert jax.eval_shape(lambda p: state.merge(graph, p)(np.zeros((2, 16, 24, 3), np.float32)), params).shape == (2, 4)


def test_a_setting_that_this_version_does_not_know_is_refused_by_name(tmp_path):
    make_run(tmp_path)
    file = tmp_path / "checkpoints" / "7" / "model.json"
    content = json.loads(file.read_text())
    content["model"]["memory_tokens"] = 4
    from vitzoo.config.assembly import from_description

    with pytest.raises(UserError, match=r"model.memory_tokens"):
        from_description(content)
