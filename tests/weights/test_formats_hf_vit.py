"""Vision Transformers of Hugging Face transformers: read to the same numbers, written back bitwise, and refused by name
where they hold what no model here has."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import published
import pytest
import safetensors.numpy
from flax import nnx
from PIL import Image
from published import leaves, refused

import vitzoo
from vitzoo.cli import main
from vitzoo.data.images import resize_eval
from vitzoo.data.processors.image import described_images
from vitzoo.data.settings import Preprocessing
from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import Learned2D, SinCos2D
from vitzoo.schema import build
from vitzoo.weights.convert import write_safetensors
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.files.weights import Tensors, Weights
from vitzoo.weights.formats import hf_images
from vitzoo.weights.formats.hf_vit import HFViT
from vitzoo.weights.formats.hf_vit_config import as_table
from vitzoo.weights.formats.registry import recognise
from vitzoo.weights.mapping import read_mapping

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights" / "hf-vit"
CASES = sorted(folder.name for folder in GOLDENS.iterdir() if folder.is_dir())
COMPUTED = ("deit", "registers_classes", "siglip")
"""Those that are always computed; the others differ from them in names and heads."""
WRITTEN = ("vit", "vit_pooler", "deit", "new_dinov2_giant", "registers_classes", "siglip", "siglip_classes")
"""Those that are always written."""
OTHER_SIZES = {"new_vit": 10, "dinov2": 6, "registers": 6, "siglip_vision": 10}
PROCESSORS = (
    *("squash", "squash_oblong", "squash_crop", "short_side", "siglip", "no_mean", "other_scale", "no_scale"),
)


def some(names, always):
    """As parameters, the others marked slow."""
    return [name if name in always else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(scope="module")
def golden():
    """Reads a golden once: model, reading, Config, leaves by path, and what is expected of it."""
    return published.reader(GOLDENS)


def compiled(function, images):
    """Compiled without optimising: it runs once."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})(images)


def copied(name, to, *, processor=None, **changes):
    """A golden's folder with changes, and with another processor."""
    folder = published.copied(GOLDENS / name, to, **changes)
    if processor is not None:
        (folder / hf_images.FILE).write_text(json.dumps(processor))
    return folder


def reading_of(folder, **given):
    """What is read of a folder; its arrays must fit."""
    return leaves(folder, **given)[0]


@pytest.mark.parametrize("name", some(CASES, COMPUTED))
def test_the_numbers_are_those_of_the_source(name, golden):
    model, _, config, _, expected = golden(name)
    assert recognise(open_weights_file(str(GOLDENS / name))).name == "hf-vit"
    images = expected["images"][:, : config.image_size[0], : config.image_size[1]]
    seen = compiled(model.features, images)
    np.testing.assert_allclose(seen["tokens"], expected["tokens"], atol=1e-5, rtol=0)
    np.testing.assert_allclose(seen.get("logits", seen["pooled"]), expected["output"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", some(OTHER_SIZES, ("registers",)))
def test_at_another_size_positions_are_resized_as_the_source_does(name, golden):
    expected = golden(name)[-1]
    model, _ = vitzoo.load(str(GOLDENS / name), image_size=OTHER_SIZES[name])
    output = compiled(lambda images: model(images), expected["other_images"])
    np.testing.assert_allclose(output, expected["other_output"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", some(CASES, WRITTEN))
def test_out_and_in_again_is_bitwise_the_same_under_the_published_names(name, golden, tmp_path):
    _, reading, config, params, _ = golden(name)
    description = {"classes": reading.classes, "objective": reading.objective, "inputs": {}}
    tensors, writing = published.written(HFViT(), config, params, **description)
    write_safetensors(tmp_path, iter(tensors.items()))
    (tmp_path / "config.json").write_text(json.dumps(dict(writing.config)))
    _, again, same_config, same, _ = (*published.read(tmp_path), None)
    assert (same_config, again.classes, again.objective) == (config, reading.classes, reading.objective)
    for path, leaf in params.items():
        np.testing.assert_array_equal(same[path], leaf, err_msg=path)
    theirs = open_weights_file(str(GOLDENS / name)).tensors
    published_names = not name.startswith("new_") and name not in ("mae", "vit_masked", "siglip_vision")
    for key, array in tensors.items() if published_names else ():
        np.testing.assert_array_equal(array, np.zeros_like(array) if "mask_token" in key else theirs[key], err_msg=key)


def test_a_folder_goes_through_a_run_of_ours_and_back(tmp_path):
    assert main(["convert", str(GOLDENS / "deit"), str(tmp_path / "ours")]) == 0
    assert main(["convert", str(tmp_path / "ours"), str(tmp_path / "theirs")]) == 0
    files = [safetensors.numpy.load_file(at / "model.safetensors") for at in (GOLDENS / "deit", tmp_path / "theirs")]
    assert files[0].keys() == files[1].keys()
    assert all((files[0][key] == files[1][key]).all() for key in files[0])
    contents = [json.loads((at / hf_images.FILE).read_text()) for at in (GOLDENS / "deit", tmp_path / "theirs")]
    assert contents[0] == contents[1]
    before, after = (json.loads((at / "config.json").read_text()) for at in (GOLDENS / "deit", tmp_path / "theirs"))
    assert {key for key in after if before.get(key, after[key]) != after[key]} <= {"label2id"}  # null in the golden
    assert vitzoo.load(str(tmp_path / "theirs"))[1].classes == ("ant", "bee", "cat", "dog", "eel")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("vit", {"norm_epsilon": 0.01, "gelu": "exact", "image_size": (4, 6), "num_classes": 5}),
        ("new_vit", {"norm_epsilon": 1e-12, "gelu": "tanh", "qkv_bias": False}),
        ("vit_pooler", {"pre_logits": 7, "gelu": "quick", "num_classes": 0}),
        ("dino", {"pre_logits": False, "num_classes": 0, "position_antialias": False}),
        ("deit", {"distillation": "head"}),
        ("new_deit", {"distillation": "token"}),
        ("dinov2_giant", {"gated_mlp": True, "mlp_dim": 16, "pooling": "cls_gap", "layer_scale": 0.5}),
        ("registers", {"registers": 2, "position_antialias": True, "norm_epsilon": 1e-6}),
        ("siglip", {"pooling": "map", "norm_epsilon": 0.01, "gelu": "tanh", "class_token": False}),
        ("siglip_classes", {"pooling": "gap"}),
        ("siglip_vision", {"image_size": (6, 6)}),
    ],
)
def test_settings_are_those_of_config_json(name, fields, golden):
    assert {field: getattr(golden(name)[2], field) for field in fields} == fields


def test_what_only_pretraining_or_texts_need_is_ignored_by_name(golden):
    def told(name):
        source, reading = open_weights_file(str(GOLDENS / name)), golden(name)[1]
        return " ".join([*reading.notes, *read_mapping(reading.mapping, source.tensors, reading.ignored, name)[1]])

    assert "the decoder, which only pretraining uses" in told("mae")
    assert "nothing is masked" in told("mae")
    assert "only pretraining by masked patches" in told("dinov2")
    assert "the text tower" in told("siglip")
    assert "epsilon 1e-12, as config.json says" in told("dino")
    assert "(7, 7), of which transformers looks at the upper left (6, 6)" in told("siglip_vision")


def test_classes_without_names_have_none_and_several_may_be_right(tmp_path, golden):
    assert golden("new_vit")[1].classes is None
    reading = reading_of(copied("vit", tmp_path, config={"problem_type": "multi_label_classification"}))
    assert reading.objective == {"name": "classification", "loss": "sigmoid"}


def test_a_layer_that_the_head_does_not_read_is_left_aside(tmp_path):
    pooler = {"vit.pooler.dense.weight": np.ones((12, 12)), "vit.pooler.dense.bias": np.ones(12)}
    assert reading_of(copied("vit", tmp_path, arrays=pooler)).model["pre_logits"] is False


@pytest.mark.parametrize(
    ("name", "arrays", "message"),
    [
        ("vit", {"vit.layernorm.bias": None}, "misses vit.layernorm.bias"),
        ("vit", {"vit.layernorm.more": np.ones(3)}, "also has vit.layernorm.more"),
        ("new_vit", {"vit.layers.1.attention.q_proj.weight": None}, "misses vit.layers.1.attention.q_proj.weight"),
        (
            "vit",
            {"vit.encoder.layer.1.output.dense.weight": np.ones((20, 12))},
            "isn't that of the layers before",
        ),
        ("vit", {"vit.embeddings.position_embeddings": np.ones((1, 6, 12))}, "2 × 3 patches, and its positions are 5"),
        ("vit", {"vit.encoder.layer.1.relative.weight": np.ones(1)}, "also has vit.encoder.layer.1.relative.weight"),
        ("registers", {"embeddings.register_tokens": np.ones((1, 3, 12))}, "num_register_tokens = 2"),
        ("dinov2", {"encoder.layer.0.layer_scale1.lambda1": None}, "misses encoder.layer.0.layer_scale1.lambda1"),
        ("siglip", {"vision_model.head.probe": None}, "vision_use_head = True"),
        ("siglip", {"vision_model.post_layernorm.bias": None}, "misses vision_model.post_layernorm.bias"),
    ],
)
def test_a_file_that_is_not_what_its_names_say_is_refused_by_name(name, arrays, message, tmp_path):
    assert message in refused(copied(name, tmp_path, arrays=arrays))


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("vit", {"model_type": "beit"}, "model_type = 'beit'"),
        ("vit", {"num_hidden_layers": 3}, "num_hidden_layers = 3; here it can only be 2"),
        ("vit", {"hidden_size": 24}, "hidden_size = 24"),
        ("vit", {"image_size": 8}, "image_size = 8 × 8: 4 × 4 patches"),
        ("vit", {"image_size": "8"}, "image_size = '8'; a number or two"),
        ("vit", {"patch_size": 4}, "patch_size = (4, 4)"),
        ("vit", {"hidden_act": "relu"}, "hidden_act = 'relu'; known: gelu"),
        ("vit", {"layer_norm_eps": "small"}, "layer_norm_eps = 'small'"),
        ("vit", {"num_attention_heads": 5}, "num_heads = 5"),
        ("vit", {"qkv_bias": False}, "qkv_bias = False"),
        ("vit", {"problem_type": "regression"}, "problem_type = regression"),
        ("vit", {"id2label": {"0": "ant"}}, "id2label of 1 names in config.json for 5 classes"),
        ("vit_pooler", {"pooler_act": "gelu"}, "pooler_act = 'gelu'"),
        ("dinov2", {"use_swiglu_ffn": True}, "use_swiglu_ffn = True"),
        ("siglip", {"model_type": "siglip2"}, "model_type = 'siglip2'"),
        ("siglip", {"vision_config": {"intermediate_size": 24}}, "intermediate_size = 24"),
        ("siglip", {"vision_config": True}, "vision_config = True"),
    ],
)
def test_a_config_that_contradicts_or_asks_for_more_is_refused_by_name(name, config, message, tmp_path):
    assert message in refused(copied(name, tmp_path, config=config))


def test_what_config_json_leaves_out_is_transformers_default(tmp_path):
    nested = {"vision_config": {"image_size": 6, "model_type": "siglip_vision_model", "num_attention_heads": 4}}
    fields = reading_of(copied("siglip", tmp_path, config=nested)).model
    assert (fields["num_heads"], fields["norm_epsilon"], fields["gelu"]) == (4, 1e-6, "tanh")
    folder = copied("dino", tmp_path, config={"layer_norm_eps": None, "num_attention_heads": None, "hidden_act": None})
    fields = reading_of(folder).model
    assert (fields["num_heads"], fields["norm_epsilon"], fields["gelu"]) == (12, 1e-12, "exact")
    (folder / "config.json").unlink()
    assert "has no config.json that says num_heads" in refused(folder)
    reading = reading_of(folder, num_heads=3)
    assert reading.model["image_size"] == (6, 6)
    assert "no config.json: gelu and epsilon 1e-12" in " ".join(reading.notes)


@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_are_those_of_the_sources_processor(name, tmp_path):
    """To a tenth of a step of 255. A step would be right too: PIL's versions may round a resized pixel otherwise."""
    with np.load(GOLDENS / "preprocessing.npz") as file:
        picture, pixels, config = (file[key] for key in ("picture", f"{name}/pixels", f"{name}/config"))
    (tmp_path / hf_images.FILE).write_text(str(config))
    size = pixels.shape[:2]
    fields, notes = hf_images.read(source_at(tmp_path), "ViTImageProcessor", size, size)
    ours = build(Preprocessing, fields, "preprocessing")
    std = np.array(ours.std)
    found = (resize_eval(picture, size, ours) - np.array(ours.mean)) / std
    assert not notes
    assert np.abs((found - pixels) * std).max() < 0.1
    description = {"inputs": {"image": described_images(ours, size, 3)}}
    written, departing = hf_images.written(description, "transformers")
    assert not departing
    (tmp_path / hf_images.FILE).write_text(json.dumps(written[hf_images.FILE]))
    again = build(Preprocessing, hf_images.read(source_at(tmp_path), "", size, size)[0], "preprocessing")
    assert {"inputs": {"image": described_images(again, size, 3)}} == description


def source_at(folder):
    return Weights("here", Tensors({}), folder)


def preprocessing(
    folder, content, file=hf_images.FILE, *, usual="ViTImageProcessor", whole=(224, 224), size=None, **settings
):
    (folder / file).write_text(json.dumps(content))
    return hf_images.read(source_at(folder), usual, whole, size or whole, **settings)


def test_processors_of_older_and_newer_versions_mean_the_same(tmp_path):
    old = {"feature_extractor_type": "DeiTFeatureExtractor", "size": 256, "crop_size": 224}
    fields, notes = preprocessing(tmp_path, old)
    assert (fields["resize"], fields["crop_fraction"], fields["interpolation"]) == ("squash", 0.875, "bicubic")
    assert not notes
    short, _ = preprocessing(tmp_path, {"size": 256}, usual="BitImageProcessor")
    assert (short["resize"], short["crop_fraction"]) == ("short_side_crop", 0.875)
    square, _ = preprocessing(tmp_path, {"size": 224, "image_processor_type": "ViTImageProcessorFast"})
    assert (square["resize"], square["crop_fraction"]) == ("squash", 1.0)
    (tmp_path / hf_images.FILE).unlink()
    inside = {"image_processor": {"image_processor_type": "SiglipImageProcessor", "image_std": [0.25] * 3}}
    fields, _ = preprocessing(tmp_path, inside, hf_images.WITH_TEXT)
    assert fields["std"] == (63.75, 63.75, 63.75)


def test_sizes_that_differ_are_told(tmp_path):
    dinov2 = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}
    fields, notes = preprocessing(tmp_path, dinov2, usual="BitImageProcessor", whole=(518, 518), any_size=True)
    assert fields["crop_fraction"] == 0.875
    assert "give image_size=224" in notes[0]
    fields, notes = preprocessing(tmp_path, {"size": 384}, whole=(384, 384), size=(378, 378))
    assert round(378 / fields["crop_fraction"]) == 384
    assert "looks at the upper left (378, 378)" in notes[0]
    _, notes = preprocessing(tmp_path, {"size": {"shortest_edge": 224}})
    assert "aren't square" in notes[0]


@pytest.mark.parametrize(
    ("content", "made"),
    [
        ({"size": {"height": 5, "width": 99}}, "5 × 99"),
        ({"size": 12}, "12 × 12"),
        ({"size": {"height": 6, "width": 4}}, "6 × 4"),
        ({"image_processor_type": "ViTImageProcessor"}, "224 × 224"),
        ({"size": {"height": 4, "width": 6}, "do_center_crop": True, "crop_size": {"height": 2, "width": 3}}, "2 × 3"),
    ],
)
def test_images_of_another_size_than_the_model_takes_are_refused(content, made, tmp_path, capsys):
    """As transformers' ViT refuses them; with a crop to the model's size they are right."""
    folder = copied("vit", tmp_path, processor=content)
    Image.new("RGB", (6, 4)).save(tmp_path / "a.png")
    assert main(["predict", "--checkpoint", str(folder), str(tmp_path / "a.png")]) == 2
    said = "and the model takes 4 × 6: one of the two files is wrong"
    assert f"preprocessor_config.json makes images of {made}, {said}" in capsys.readouterr().err
    crop = {"size": {"height": 8, "width": 12}, "do_center_crop": True, "crop_size": {"height": 4, "width": 6}}
    assert reading_of(copied("vit", tmp_path / "cropped", processor=crop)).preprocessing["crop_fraction"] == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"image_processor_type": "ConvNextImageProcessor"}, "image_processor_type = 'ConvNextImageProcessor'; known"),
        ({"resample": 4}, "resample = 4"),
        ({"do_resize": False}, "do_resize = False"),
        ({"do_pad": True}, "do_pad = True"),
        ({"size": {"longest_edge": 224}}, "size = {'longest_edge': 224}"),
        ({"size": "large"}, "size = 'large'"),
        ({"do_center_crop": True, "crop_size": {"height": 224, "width": 112}}, "cuts (224, 112) out of (224, 224)"),
        ({"do_center_crop": True, "crop_size": 240}, "cuts (240, 240) out of (224, 224)"),
        ({"image_mean": "half"}, "image_mean = 'half'"),
        ({"rescale_factor": 0}, "rescale_factor = 0"),
        ([], "preprocessor_config.json: holds a list, where"),
    ],
)
def test_a_processor_that_does_what_none_here_does_is_refused(content, message, tmp_path):
    with pytest.raises(UserError) as caught:
        preprocessing(tmp_path, content)
    assert message in str(caught.value)


def test_a_damaged_processor_file_is_refused(tmp_path):
    (tmp_path / hf_images.FILE).write_text("{")
    with pytest.raises(UserError, match="can't be read"):
        hf_images.read(source_at(tmp_path), "ViTImageProcessor", (8, 8), (8, 8))


SMALL = ViTConfig(patch_size=2, width=12, depth=1, mlp_dim=24, num_heads=3, image_size=(4, 6), channels=3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"registers": 2}, "model.layer_scale"),
        ({"layer_scale": 0.1, "registers": 2}, "model.image_size"),
        ({"layer_scale": 0.1, "image_size": 8, "mlp_dim": 20}, "model.mlp_dim"),
        ({"layer_scale": 0.1, "image_size": 8, "num_classes": 3}, "model.pooling"),
        ({"layer_scale": 0.1, "image_size": 8, "distillation": "token"}, "model.distillation"),
        ({"pooling": "gap", "class_token": True}, "model.pooling"),
        ({"pooling": "gap", "norm_after_pooling": True}, "model.norm_after_pooling"),
        ({"pooling": "gap"}, "model.image_size"),
        ({"pooling": "map", "num_classes": 3}, "model.pooling"),
        ({"num_classes": 3, "pre_logits": True}, "model.pre_logits"),
        ({"distillation": "head", "num_classes": 0}, "model.distillation"),
        ({"qk_norm": True}, "model.qk_norm"),
        ({"out_bias": False}, "model.out_bias"),
        ({"pad_to_patch": True}, "model.pad_to_patch"),
        ({"positions": "rotary", "width": 24}, "model.positions"),
        ({"positions": "relative_bias"}, "model.positions"),
        ({"layer_scale": 0.1, "registers": 2, "prefix_positions": "all", "image_size": 8}, "model.prefix_positions"),
    ],
)
def test_a_setting_without_a_place_is_refused_by_name(fields, message):
    config = dataclasses.replace(SMALL, **{"num_classes": 0, **fields})
    table = np.zeros((1, config.placed_prefix + config.patches, config.width), np.float32)
    with pytest.raises(UserError) as caught:
        HFViT().write(config, {"positions/embedding": table}, {}, None)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resize": "pad"}, "inputs.image.resize"),
        ({"antialias": False}, "inputs.image.antialias"),
    ],
)
def test_a_preprocessing_without_a_place_is_refused_by_name(fields, message):
    description = {"inputs": {"image": described_images(Preprocessing(**fields), (8, 8), 3)}}
    with pytest.raises(UserError) as caught:
        hf_images.written(description, "transformers")
    assert message in str(caught.value)


def learned2d():
    halves = Learned2D((2, 3), 12, rngs=nnx.Rngs(0))
    return {f"positions/{axis}": np.asarray(getattr(halves, axis)[...]) for axis in "xy"}, halves()


def learned1d():
    table = np.random.default_rng(0).normal(size=(1, 6, 12)).astype(np.float32)
    return {"positions/embedding": table}, table


ADDED = {
    "sincos2d": lambda: ({}, SinCos2D((2, 3), 12)()),
    "learned2d": learned2d,
    "none": lambda: ({}, np.zeros((1, 6, 12))),
    "learned1d": learned1d,
}
"""Leaves of positions, and what the model adds to its patches."""


@pytest.mark.parametrize("positions", ADDED)
def test_positions_that_are_added_go_out_as_a_table(positions):
    config = dataclasses.replace(SMALL, positions=positions, prefix_positions="none")
    params, added = ADDED[positions]()
    changed, written = as_table(config, {"class_token": np.ones(1), **params}, 1, "transformers' ViT")
    table = written.pop("positions/embedding")
    assert (changed.positions, changed.prefix_positions, list(written)) == ("learned1d", "class", ["class_token"])
    assert (table[:, 0] == 0).all()
    np.testing.assert_array_equal(table[:, 1:], added)
