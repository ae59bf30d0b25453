"""Files of Google's vision_transformer and big_vision, against logits of the same architecture in flax.linen."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import published
import pytest

import vitzoo
from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.files.weights import Tensors, Weights
from vitzoo.weights.formats import google
from vitzoo.weights.formats.registry import find_format, recognise
from vitzoo.weights.mapping import read_mapping

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
CASES = {
    "vision_transformer/token": {},
    "vision_transformer/in21k": {},
    "vision_transformer/training": {},
    "big_vision/sincos": {"image_size": (8, 12)},
    "big_vision/separate": {},
    "big_vision/towers:img": {},
    "big_vision/inlined": {},
    "big_vision/oblong": {"image_size": (8, 20)},
}
"""File → what must be given."""


def path_of(case):
    name, _, subtree = case.partition(":")
    return f"{GOLDENS / name}.npz" + (f":{subtree}" if subtree else "")


def expected(case):
    form, name = case.partition(":")[0].split("/")
    with np.load(GOLDENS / form / "expected.npz") as values:
        return values[f"{name}/images"], values[f"{name}/logits"]


def source_of(case="big_vision/separate", without=(), **arrays):
    """A golden with arrays left out, replaced or added (`__` for `/`)."""
    source = open_weights_file(path_of(case))
    kept = {name: array for name, array in source.tensors.items() if name not in without}
    kept |= {name.replace("__", "/"): array for name, array in arrays.items()}
    return dataclasses.replace(source, tensors=Tensors.of(kept))


def logits_of(model, images):
    """A call, compiled without optimising: it runs once."""
    return jax.jit(lambda images: model(images), compiler_options={"xla_backend_optimization_level": 0})(images)


def read(source, **given):
    """What is read of a source, and its arrays."""
    reading = google.read_vit(source, given, rounding="none")
    return reading, read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)[0]


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_recognised_and_gives_its_sources_logits(case):
    images, logits = expected(case)
    assert recognise(open_weights_file(path_of(case))).name == case.split("/")[0]
    model, reading, config, _ = published.read(path_of(case), **CASES[case])
    assert (config.num_heads, config.image_size) == (3, images.shape[1:3])
    np.testing.assert_allclose(logits_of(model, images), logits, atol=1e-5, rtol=0)
    rounding = {"vision_transformer": "none", "big_vision": "cut"}[case.split("/")[0]]
    points = {"resize": "squash", "interpolation": "bilinear", "antialias": False}
    assert reading.preprocessing == {**points, "rounding": rounding}


@pytest.mark.parametrize(
    ("case", "form"),
    [
        ("vision_transformer/token", "vision_transformer"),
        ("vision_transformer/training", "vision_transformer"),
        ("vision_transformer/training", "big_vision"),
        ("big_vision/sincos", "big_vision"),
        ("big_vision/separate", "big_vision"),
        ("big_vision/towers:img", "big_vision"),
        ("big_vision/inlined", "big_vision"),
    ],
)
def test_out_and_in_again_is_bitwise_the_same(case, form, tmp_path):
    _, _, config, params = published.read(path_of(case), **CASES[case])
    tensors, writing = published.written(find_format(form), config, params, model={})
    np.savez(tmp_path / "model.npz", allow_pickle=False, **tensors)
    assert not writing.config
    assert recognise(open_weights_file(str(tmp_path))).name == form
    _, _, again, same = published.read(tmp_path, **CASES[case])
    assert again == config
    for name, leaf in params.items():
        np.testing.assert_array_equal(same[name], leaf, err_msg=name)


def test_what_is_written_has_the_published_names():
    _, _, config, params = published.read(path_of("vision_transformer/token"))
    tensors, _ = published.written(find_format("vision_transformer"), config, params)
    with np.load(path_of("vision_transformer/token")) as file:
        assert set(tensors) == set(file)
        for name, array in tensors.items():
            np.testing.assert_array_equal(array, file[name], err_msg=name)


def test_a_head_of_zeros_is_left_out_and_said():
    reading, _ = read(open_weights_file(path_of("vision_transformer/in21k")))
    assert (reading.model["num_classes"], reading.model["pre_logits"]) == (0, True)
    assert "a head of 5 classes that is all zeros was left out; one must be trained" in " ".join(reading.notes)
    trained, _ = read(source_of("vision_transformer/in21k", head__kernel=np.ones((12, 5), np.float32)))
    assert trained.model["num_classes"] == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"without": ["Transformer/encoderblock_1/LayerNorm_1/bias"]}, "misses Transformer/encoderblock_1/LayerN"),
        ({"without": ["embedding/kernel"]}, "lacks embedding/kernel"),
        ({"Transformer__encoderblock_1__ls1": np.ones(12)}, "also has Transformer/encoderblock_1/ls1"),
        ({"Transformer__encoderblock_0__LayerNorm_2__bias": np.ones(12)}, "also has .*LayerNorm_2/bias"),
        ({"embedding__kernel": np.ones((16, 12))}, r"has embedding/kernel of shape \(16, 12\), where 4 dim"),
        ({"Transformer__encoderblock_1__LayerNorm_1__bias": np.ones(7)}, "which isn't that of the layers before"),
        ({"MAPHead_0__probe": np.ones((1, 1, 12))}, "holds a class token and a probe"),
        ({"conv_root__kernel": np.ones((7, 7, 3, 64))}, "is a hybrid, a ViT on top of a ResNet"),
        ({"pos_embedding": np.ones((1, 12, 12))}, "has 12 positions, not of a square; give image_size"),
        ({"without": ["cls"], "pos_embedding": np.ones((1, 10, 12))}, "one more than a square, but no class token"),
    ],
)
def test_what_is_not_a_vit_of_these_codes_is_refused_in_one_line(changes, message):
    with pytest.raises(UserError, match=message) as refusal:
        read(source_of(**changes))
    assert "\n" not in str(refusal.value)


def test_several_towers_are_named_and_one_is_chosen_by_subtree():
    path = path_of("big_vision/towers")
    with pytest.raises(UserError, match=r"holds several models \(b, img, t, txt\); write FILE:img"):
        read(open_weights_file(path))
    assert set(open_weights_file(f"{path}:params/img").tensors) == set(open_weights_file(f"{path}:img").tensors)
    with pytest.raises(UserError, match="has nothing below video; there are b, img, t, txt"):
        open_weights_file(f"{path}:video")


@pytest.mark.parametrize(
    ("table", "rows", "cls", "given", "right"),
    [
        ("pos_embedding", 196, False, None, ((14, 14), 0)),
        ("pos_embedding", 196, True, None, ((14, 14), 0)),
        ("pos_embedding", 197, True, None, ((14, 14), 1)),
        ("pos_embedding", 196, False, (28, 112), ((14, 14), 0)),  # the size that is wanted, not that of the file
        ("Transformer/posembed_input/pos_embedding", 197, True, (28, 112), ((14, 14), 1)),
        ("Transformer/pos_embedding", 16, True, (8, 32), ((4, 4), 0)),
        ("pos_embedding", 10, True, None, ((3, 3), 1)),  # by convention a square; 2 × 5 must be said
        ("pos_embedding", 10, True, (8, 20), ((2, 5), 0)),  # where a class token has no row
        ("Transformer/posembed_input/pos_embedding", 10, True, (8, 20), ((3, 3), 1)),  # where it has one
        ("Transformer/posembed_input/pos_embedding", 9, True, (8, 16), ((2, 4), 1)),
        ("pos_embedding", 10, False, (8, 20), ((2, 5), 0)),
        ("pos_embedding", 11, True, (8, 20), ((2, 5), 1)),
        ("pos_embedding", 9, True, (20, 20), ((3, 3), 0)),
    ],
)
def test_the_grid_is_a_square_where_there_is_one_and_else_what_was_given(table, rows, cls, given, right):
    nothing = Weights("file", Tensors({}), Path())
    grid, before, notes = google.find_grid(nothing, table, rows, (4, 4), cls, given)
    assert (grid, before) == right
    assert notes[0].startswith(f"{rows} positions taken for {right[0][0]} × {right[0][1]} patches")


def test_without_a_table_positions_are_sines_of_the_usual_size_unless_given():
    source = open_weights_file(path_of("big_vision/sincos"))
    reading, _ = read(source)
    assert (reading.model["positions"], reading.model["image_size"]) == ("sincos2d", (224, 224))
    assert "nothing tells the size of images: 224 × 224 taken; image_size changes it" in reading.notes
    assert read(source, positions="none")[0].model["positions"] == "none"


def test_another_resolution_resizes_positions_corner_on_corner():
    _, info = vitzoo.load(path_of("vision_transformer/token"), image_size=(20, 12))
    assert "resized  positions/embedding: 3×3 → 5×3 patches (corner_linear)" in " ".join(info.report.lines())
    assert "10 positions taken for 3 × 3 patches and a class token: images of 12 × 12" in info.report.told


def test_flexivit_is_used_at_another_patch_and_image_size():
    images, logits = expected("big_vision/flexible")
    how = {"position_resize": "bilinear", "position_antialias": True}
    model, info = vitzoo.load(path_of("big_vision/flexible"), patch_size=4, image_size=16, **how)
    assert info.report.paths("resized") == ["positions/embedding", "patch_embedding/kernel"]
    np.testing.assert_allclose(logits_of(model, images), logits, atol=1e-5, rtol=0)


def test_flexivits_sizes_are_noticed():
    sizes = {"embedding__kernel": np.ones((32, 32, 3, 12)), "pos_embedding": np.ones((1, 49, 12))}
    reading, _ = read(source_of(without=["cls"], **sizes))
    assert (reading.model["position_resize"], reading.model["position_antialias"]) == ("bilinear", True)
    assert "as FlexiViT keeps them" in " ".join(reading.notes)


@pytest.mark.parametrize(
    ("form", "changes", "message"),
    [
        ("vision_transformer", {"registers": 2}, "model.registers = 2: has no place in vision_transformer's format"),
        ("big_vision", {"gelu": "exact"}, "model.gelu = exact"),
        ("big_vision", {}, "model.prefix_positions = class: has no place in big_vision's format, where it is none"),
        ("vision_transformer", {"prefix_positions": "none"}, "model.prefix_positions = none"),
        ("vision_transformer", {"pooling": "map"}, "model.pooling = map: .*which has cls, gap"),
        ("vision_transformer", {"positions": "sincos2d"}, "model.positions = sincos2d: .*which has learned1d"),
        ("big_vision", {"pooling": "gap", "class_token": True}, "model.class_token = True: .* with pooling=gap"),
    ],
)
def test_a_model_that_the_code_has_no_place_for_is_refused_by_setting(form, changes, message):
    with pytest.raises(UserError, match=message):
        find_format(form).write(ViTConfig(**changes), {}, {}, None)
