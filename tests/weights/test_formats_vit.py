"""Vision Transformers born in torch: read to the same numbers, written and read again to the same bits.

The files are made by scripts/make_weight_goldens_vit.py.
"""

import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest
from published import read, written
from safetensors.numpy import save_file

from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import resize_table
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.files.weights import Tensors
from vitzoo.weights.formats.registry import find_format, recognise
from vitzoo.weights.formats.vit_common import IMAGENET
from vitzoo.weights.mapping import read_mapping

FOLDER = pathlib.Path(__file__).parents[1] / "goldens" / "weights"
CASES = {
    "timm-vit/alone": {"num_heads": 3},
    "timm-vit/wide": {},
    "timm-vit/deit3": {},
    "timm-vit/distilled": {},
    "timm-vit/dinov2": {},
    "timm-vit/dinov2_giant_reg": {},
    "timm-vit/reg4_gap": {},
    "timm-vit/so150m": {},
    "timm-vit/so150m_map": {},
    "timm-vit/siglip": {},
    "timm-vit/clip": {},
    "timm-vit/qk_norm": {},
    "facebook-vit/deit_distilled": {"num_heads": 3},
    "facebook-vit/deit3": {"num_heads": 3},
    "facebook-vit/dino": {"num_heads": 3},
    "facebook-vit/dinov2_giant": {"num_heads": 3},
    "facebook-vit/dinov2_reg": {"num_heads": 3},
    "facebook-vit/mae": {"num_heads": 3},
    "facebook-vit/mae_tuned": {"num_heads": 3},
    "torchvision-vit/plain": {"num_heads": 3},
    "torchvision-vit/representation": {"num_heads": 3},
    "vit-pytorch/cls": {"num_heads": 3},
    "vit-pytorch/mean": {"num_heads": 3},
    "vit-pytorch/simple": {"num_heads": 3, "image_size": 4},
    "vit-pytorch/1_0": {"num_heads": 3, "pooling": "gap"},
    "vit-pytorch/1_5": {"num_heads": 3, "pooling": "gap"},
}
"""Each file, and what must be said besides."""
SAYING_MOST = ("timm-vit/distilled", "timm-vit/dinov2_giant_reg", "timm-vit/so150m_map", "vit-pytorch/1_0")
"""Between them most settings; compiling them all takes too long for every day."""
DESCRIPTION = {
    "classes": list("abcde"),
    "inputs": {
        "image": {
            "kind": "image",
            "resize": "squash",
            "interpolation": "bilinear",
            "crop_fraction": 0.875,
            "crop_offset": "half_even",
            "mean": IMAGENET["mean"],
            "std": IMAGENET["std"],
        }
    },
}


def file_of(case):
    return next(path for path in (FOLDER / case).iterdir() if path.suffix in (".safetensors", ".pth", ".pt"))


def source_of(case, **changes):
    """The file, with some arrays replaced, or left out where None."""
    source = open_weights_file(str(file_of(case)))
    tensors = {name: source.tensors[name] for name in source.tensors} | changes
    kept = {name: array for name, array in tensors.items() if array is not None}
    return dataclasses.replace(source, tensors=Tensors.of(kept))


def with_config(case, **changes):
    source = source_of(case)
    return dataclasses.replace(source, config={**source.config, **changes})


def known(case):
    with np.load(FOLDER / case / "expected.npz") as file:
        return file["images"], file["output"]


def compare(cases):
    """All in one program: compiling each for itself takes several times as long."""
    models = [read(file_of(case), **CASES[case])[0] for case in cases]
    images, outputs = zip(*(known(case) for case in cases), strict=True)
    made = jax.jit(lambda all_images: [model(x) for model, x in zip(models, all_images, strict=True)])(images)
    for case, ours, right in zip(cases, made, outputs, strict=True):
        np.testing.assert_allclose(ours, right, atol=1e-5, err_msg=case)


def test_numbers_are_those_of_the_models_own_code():
    compare(SAYING_MOST)


@pytest.mark.slow
def test_numbers_of_all_files_are_those_of_the_models_own_code():
    compare([case for case in CASES if case not in SAYING_MOST])


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_recognised_and_every_name_is_used_or_ignored_by_name(case):
    source = source_of(case)
    form = recognise(source)
    assert form.name == case.partition("/")[0]
    reading = form.read(source, CASES[case])
    ViTConfig(**{key: value for key, value in reading.model.items() if key != "name"}).check()
    _, ignored = read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)
    named = {"facebook-vit/dino": "head.", "facebook-vit/mae": "decoder", "facebook-vit/dinov2_reg": "mask_token"}
    assert case not in named or any(named[case] in line for line in ignored)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("timm-vit/wide", "blocks.1.attn.qkv.weight"),
        ("facebook-vit/dino", "backbone.blocks.1.mlp.fc1.weight"),
        ("torchvision-vit/plain", "encoder.layers.encoder_layer_1.mlp.0.weight"),
        ("vit-pytorch/cls", "transformer.layers.1.1.net.4.weight"),
    ],
)
def test_a_missing_a_strange_and_a_misshaped_array_are_refused_by_name(case, name):
    whole = source_of(case).tensors[name]
    for changes, message in (
        ({name: None}, f"misses {name}"),
        ({"blocks.0.more": whole}, "also has blocks.0.more"),
        ({name: whole[:-1]}, name),
    ):
        source = source_of(case, **changes)
        reading = find_format(case.partition("/")[0]).read(source, CASES[case])
        with pytest.raises(UserError, match=message):
            read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("timm")])
def test_timms_files_go_out_and_in_again_bitwise(case, tmp_path):
    source = source_of(case)
    form = find_format("timm-vit")
    reading = form.read(source, CASES[case])
    params, _ = read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)
    config = ViTConfig(**{key: value for key, value in reading.model.items() if key != "name"})
    description = DESCRIPTION | ({} if config.num_classes else {"classes": None})
    tensors, writing = written(form, config, params, **description)
    assert tensors.keys() == set(source.tensors)
    for name, array in tensors.items():
        np.testing.assert_array_equal(array, source.tensors[name])
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(writing.config))
    again = form.read(open_weights_file(str(tmp_path)), {})
    assert again.model == reading.model
    assert again.classes == (tuple("abcde") if config.num_classes else None)
    assert {"kind": "image", **again.preprocessing} == {
        **DESCRIPTION["inputs"]["image"],
        "crop_fraction": pytest.approx(0.8),
    }


def test_registers_beside_a_class_token_with_a_row_go_out_to_timm_and_give_the_same_numbers(tmp_path):
    _, _, config, params = read(file_of("facebook-vit/dinov2_reg"), **CASES["facebook-vit/dinov2_reg"])
    assert (config.prefix_positions, config.registers) == ("class", 2)
    tensors, writing = written(find_format("timm-vit"), config, params, **DESCRIPTION | {"classes": None})
    assert tensors["pos_embed"].shape == (1, 4, 12)
    assert "the class token's row of positions is added to the token" in writing.notes[0]
    np.testing.assert_array_equal(tensors["cls_token"], params["class_token"] + params["positions/embedding"][:, :1])
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(writing.config))
    again, _, same, _ = read(tmp_path)
    assert (same.prefix_positions, same.registers) == ("none", 2)
    images, right = known("facebook-vit/dinov2_reg")
    made = jax.jit(lambda images: again(images), compiler_options={"xla_backend_optimization_level": 0})(images)
    np.testing.assert_allclose(made, right, atol=1e-5)


@pytest.mark.parametrize("case", ["torchvision-vit/plain", "torchvision-vit/representation"])
def test_torchvisions_files_go_out_under_the_newer_names(case):
    source = source_of(case)
    form = find_format("torchvision-vit")
    reading = form.read(source, CASES[case])
    params, _ = read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)
    config = ViTConfig(**{key: value for key, value in reading.model.items() if key != "name"})
    for name, array in written(form, config, params)[0].items():
        old = name.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2.")
        np.testing.assert_array_equal(array, source.tensors[old if old in source.tensors else name])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "vit_base_patch16_rpn_224"}, r"isn't a plain ViT \('rpn'\)"),
        ({"architecture": "beit_base_patch16_224"}, r"isn't a plain ViT \('beit'\)"),
        ({"model_args": {"num_heads": 3, "block_fn": "other"}}, "model_args.block_fn = 'other', which has no place"),
        ({"model_args": {"num_heads": 3, "act_layer": "mish"}}, "act_layer = 'mish'; known: gelu, gelu_tanh"),
        ({"model_args": {"num_heads": 3, "global_pool": "max"}}, "global_pool = 'max'; known: token, avg, map"),
        ({"model_args": {"embed_dim": 12}}, "embed_dim without num_heads"),
        ({"pretrained_cfg": {"crop_mode": "border"}}, "crop_mode = 'border'; known: center, squash"),
        ({"model_args": {}}, "a width of 12 isn't a published one"),
    ],
)
def test_what_timms_config_says_and_has_no_place_is_refused_by_name(changes, message):
    source = with_config("timm-vit/wide", **changes)
    with pytest.raises(UserError, match=message):
        find_format("timm-vit").read(source, {})


def test_timms_config_says_preprocessing_and_classes():
    names = {str(index): name for index, name in reversed(list(enumerate("abcde")))}
    reading = find_format("timm-vit").read(with_config("timm-vit/clip", label_names=names), {})
    assert reading.classes == ("a", "b", "c", "d", "e")
    assert reading.preprocessing["mean"] == pytest.approx((122.7709, 116.7460, 104.0937), abs=1e-4)
    wide = find_format("timm-vit").read(source_of("timm-vit/wide"), {})
    assert wide.classes == ("ant", "bee", "cat", "dog", "eel")
    assert wide.preprocessing["mean"] == (127.5, 127.5, 127.5)
    assert wide.model["image_size"] == (4, 6)


@pytest.mark.parametrize(
    ("architecture", "heads", "gelu", "epsilon"),
    [
        ("vit_base_patch16_224", 12, "exact", 1e-6),
        ("vit_base_patch16_gap_224", 16, "exact", 1e-6),
        ("vit_base_patch32_siglip_256", 12, "tanh", 1e-6),
        ("vit_base_patch16_siglip_256", 12, "exact", 1e-6),
        ("vit_base_patch16_clip_224", 12, "exact", 1e-5),
        ("vit_base_patch16_clip_quickgelu_224", 12, "quick", 1e-5),
    ],
)
def test_an_architectures_name_says_what_shapes_do_not(architecture, heads, gelu, epsilon):
    from vitzoo.weights.formats.timm_config import of_architecture

    found, notes = of_architecture(source_of("timm-vit/wide"), architecture, {}, {}, 768)
    assert (found["num_heads"], found["gelu"], found["norm_epsilon"]) == (heads, gelu, epsilon)
    assert not notes


@pytest.mark.parametrize(
    ("case", "given", "message"),
    [
        ("timm-vit/alone", {}, "num_heads, and a width of 12 isn't a published one: give --config.model.num_heads="),
        ("vit-pytorch/cls", {}, "heads of 15 numbers together; it doesn't say num_heads"),
        ("vit-pytorch/cls", {"num_heads": 4}, "num_heads = 4, which doesn't divide 15"),
        ("vit-pytorch/simple", {"num_heads": 3}, "doesn't say image_size: give --config.model.image_size="),
    ],
)
def test_what_a_file_does_not_say_must_be_given(case, given, message):
    with pytest.raises(UserError, match=message):
        recognise(source_of(case)).read(source_of(case), given)


def test_a_grid_that_is_no_square_must_be_given():
    table = np.zeros((1, 1 + 6, 12), np.float32)
    source = source_of("timm-vit/alone", pos_embed=table)
    with pytest.raises(UserError, match="7 rows, which are no square grid: give image_size"):
        find_format("timm-vit").read(source, {"num_heads": 3})
    reading = find_format("timm-vit").read(source, {"num_heads": 3, "image_size": (4, 6)})
    assert reading.model["image_size"] == (4, 6)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"pre_logits": True}, "model.pre_logits"),
        ({"patch_norms": True}, "model.patch_norms"),
        ({"positions": "rotary"}, "model.positions"),
        ({"pooling": "cls_gap"}, "pooling"),
        ({"distillation": "token"}, "model.distillation"),
        ({"qk_norm": True}, "model.qk_norm_bias"),
        ({"norm_epsilon": 1e-12}, "model.norm_epsilon"),
    ],
)
def test_a_model_that_timms_has_no_place_for_is_refused_by_field(changes, field):
    config = ViTConfig(width=12, num_heads=3, image_size=32, num_classes=5, **changes)
    with pytest.raises(UserError) as refusal:
        find_format("timm-vit").write(config, {}, DESCRIPTION, None)
    assert field in refusal.value.field


@pytest.mark.parametrize("side", [3, 7])
@pytest.mark.parametrize(
    ("project", "method", "antialias", "offset"),
    [
        ("timm", "bicubic", True, 0.0),
        ("dino", "bicubic", False, 0.1),
        ("torchvision", "corner_bicubic", False, 0.0),
    ],
)
def test_positions_go_to_another_grid_by_each_projects_rule(project, method, antialias, offset, side):
    with np.load(FOLDER / "position_resize.npz") as file:
        resized = resize_table(file["table"], (4, 4), (side, side), 1, method, antialias, offset)
        np.testing.assert_allclose(resized, file[f"{project}/{side}"], atol=1e-5)
