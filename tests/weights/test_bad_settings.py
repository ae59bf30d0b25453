"""Files beside weights that can't be read, and settings that no model here can have: each refused in one line that
names the file and the setting."""

import json
import re
from pathlib import Path

import pytest
from made_checkpoint import make_run
from PIL import Image
from published import copied, leaves, refused

from vitzoo.cli import main
from vitzoo.config.model import config_class_of
from vitzoo.data.settings import Preprocessing
from vitzoo.errors import UserError
from vitzoo.schema import build
from vitzoo.weights.files.weights import read_json, shown
from vitzoo.weights.open import open_weights

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"

FILES = {
    "config.json": "hf-vit/vit",
    "preprocessor_config.json": "hf-vit/vit",
    "tokenizer_config.json": "gpt2",
    "special_tokens_map.json": "gpt2",
    "added_tokens.json": "bert",
    "generation_config.json": "t5",
    "modules.json": "sentences",
    "1_Pooling/config.json": "sentences",
    "sentence_bert_config.json": "sentences",
    "config_sentence_transformers.json": "sentences",
}
"""Each JSON file that is looked at beside weights, and a golden that may have it."""
TEXTS = {
    b"": "is not JSON",
    b"[" * 100_000: "is nested too deeply",
    b'{"a": ' * 40 + b"1" + b"}" * 40: "is nested too deeply",
    b'{"n_embd": 12, "n_embd": 13}': "names the field 'n_embd' twice",
    b'{"id2label": {"0": "\\ud83d"}}': r"'\ud83d' holds what is no character",
    b'{"\\ud83d": 1}': r"'\ud83d' holds what is no character",
    b"\xff\xfe": "is not UTF-8",
    b"12": "holds 12, where",
    b'"text"': "holds text, where",
    b'{"a": 1' + b"0" * 5000 + b"}": "too long to be read",
    b'{"a": ' * 1000 + b"1" + b"}" * 1000: "is nested too deeply",
    b'{"a": NaN}': "NaN is no number",
    b'{"a": [-Infinity]}': "-Infinity is no number",
    b'{"a": 1e999}': "1e999 is larger than a number can be",
}


@pytest.mark.parametrize("text", TEXTS, ids=TEXTS.values())
@pytest.mark.parametrize("name", FILES)
def test_a_json_file_beside_weights_that_cannot_be_trusted_is_refused_by_name(name, text, tmp_path):
    folder = copied(GOLDENS / FILES[name], tmp_path)
    (folder / name).write_bytes(text)
    line = refused(folder)
    assert line.startswith(f"{folder / name}: ")
    assert TEXTS[text] in line


def test_an_index_is_read_with_the_same_care(tmp_path):
    for text, why in TEXTS.items():
        (tmp_path / "model.safetensors.index.json").write_bytes(text)
        assert why in refused(tmp_path)
    for content in ({}, {"weight_map": {}}, {"weight_map": [1]}):
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(content))
        assert "has no weight_map" in refused(tmp_path)


def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_it(tmp_path):
    for name in ("gpt2", "bert", "hf-vit/vit"):
        folder = copied(GOLDENS / name, tmp_path)
        for file in folder.glob("*.json"):
            file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
        assert open_weights(str(folder)).description["model"] == open_weights(str(GOLDENS / name)).description["model"]


def test_a_json_file_is_an_object_or_a_list_as_asked(tmp_path):
    (tmp_path / "a.json").write_text('{"a": [1, {"b": null}]}')
    assert read_json(tmp_path / "a.json") == {"a": [1, {"b": None}]}
    with pytest.raises(UserError, match=r"a.json: holds an object of settings, where a list is right"):
        read_json(tmp_path / "a.json", list)
    for name in ("none.json", "x" * 5000):
        with pytest.raises(UserError, match=r"can't be read: (No such file|File name too long)"):
            read_json(tmp_path / name)


def test_values_in_messages_show_their_type_and_end():
    assert [shown(value) for value in ("12", 12, "a\nb")] == ["'12'", "12", "'a\\nb'"]
    assert shown("x" * 500) == "'" + "x" * 79 + " ..."
    assert shown(10**5000) == "a value of thousands of digits"


# ---------------------------------------------------------------------------------------------------- settings

EPSILONS = {"gpt1": "layer_norm_epsilon", "gpt2": "layer_norm_epsilon", "t5": "layer_norm_epsilon"}
EPSILONS |= dict.fromkeys(("bert", "hf-vit/vit", "hf-vit/dinov2", "hf-vit/siglip_vision"), "layer_norm_eps")
DROPOUTS = {"gpt1": "attn_pdrop", "gpt2": "resid_pdrop", "t5": "dropout_rate", "bert": "hidden_dropout_prob"}
DROPOUTS |= {"hf-vit/vit": "hidden_dropout_prob", "hf-vit/dinov2": "drop_path_rate"}
DROPOUTS |= {"hf-vit/siglip_vision": "attention_dropout"}
HEADS = {"gpt1": "n_head", "gpt2": "n_head", "bert": "num_attention_heads", "hf-vit/vit": "num_attention_heads"}
NOT_EPSILONS = (1.0, 1e308, 0, 0.0, -1e-5, "1e-5", True, [], 10**400)


@pytest.mark.parametrize("name", EPSILONS)
def test_an_epsilon_is_a_small_number_above_0(name, tmp_path):
    for number, value in enumerate(NOT_EPSILONS):
        line = refused(copied(GOLDENS / name, tmp_path / str(number), config={EPSILONS[name]: value}))
        assert re.search(rf"has {EPSILONS[name]} = .*; a number above 0 and at most 0.1 is right", line)


@pytest.mark.parametrize("name", DROPOUTS)
def test_a_dropout_is_a_share(name, tmp_path):
    for number, value in enumerate((1, 1.0, -0.1, "0.1", True, {})):
        line = refused(copied(GOLDENS / name, tmp_path / str(number), config={DROPOUTS[name]: value}))
        assert f"has {DROPOUTS[name]} = {value!r}; a number from 0 to below 1 is right" in line


@pytest.mark.parametrize("name", ["vit", "gpt", "t5", "bert", "transformer"])
def test_no_models_epsilon_is_above_a_tenth(name):
    sizes = {} if name == "vit" else {"vocabulary_size": 8}
    for value in (1.0, 0.0, -1e-06):
        with pytest.raises(UserError, match=rf"model.norm_epsilon = {value}: must be above 0 and at most 0.1"):
            build(config_class_of(name), {**sizes, "norm_epsilon": value}, "model")


@pytest.mark.parametrize("name", HEADS)
def test_heads_that_are_given_may_not_contradict_those_that_are_stated(name, tmp_path):
    line = refused(GOLDENS / name, num_heads=4)
    assert f"config.json says {HEADS[name]} = 3, and num_heads = 4 was given; leave it out" in line
    assert leaves(GOLDENS / name, num_heads=3)[0].model["num_heads"] == 3
    for number, value in enumerate((0, -1, "3", True, 3.0, [3])):
        line = refused(copied(GOLDENS / name, tmp_path / str(number), config={HEADS[name]: value}))
        assert f"has {HEADS[name]} = {value!r}; an integer from 1 to" in line


def test_heads_beside_config_json_are_stated_too():
    assert "model_args says n_head = 3, and num_heads = 4" in refused(GOLDENS / "nanogpt" / "ckpt.pt", num_heads=4)
    assert "config.json says model_args.num_heads = 3, and num_heads = 4" in refused(
        GOLDENS / "timm-vit/wide", num_heads=4
    )


@pytest.mark.parametrize(
    ("name", "config", "line"),
    [
        ("t5", {"pad_token_id": 80}, "has pad_token_id = 80; an integer from 0 to 79"),
        ("t5", {"decoder_start_token_id": 80}, "has decoder_start_token_id = 80; an integer from 0 to 79"),
        ("t5", {"decoder_start_token_id": "0"}, "has decoder_start_token_id = '0'; an integer from 0 to 79"),
        ("t5", {"relative_attention_num_buckets": 32}, "_num_buckets = 32, and its arrays are of 8"),
        ("t5", {"relative_attention_max_distance": 0}, "has relative_attention_max_distance = 0; an integer from 1"),
        ("t5", {"vocab_size": 81}, "has vocab_size = 81, and its arrays are of 80"),
        ("t5", {"tie_word_embeddings": False}, "has tie_word_embeddings = False, and there is no lm_head.weight"),
        ("t5", {"tie_word_embeddings": "no"}, "has tie_word_embeddings = 'no'; true or false is right"),
        ("t5", {"n_positions": 0}, "has n_positions = 0; an integer from 1"),
        ("gpt2", {"tie_word_embeddings": False}, "has tie_word_embeddings = False, and there is no lm_head.weight"),
        ("gpt1", {"tie_word_embeddings": False}, "has tie_word_embeddings = False, and there is no lm_head.weight"),
        ("gpt2", {"n_inner": 48}, "has n_inner = 48, and its arrays are of 20"),
        ("gpt2", {"vocab_size": "280"}, "has vocab_size = '280', and its arrays are of 280"),
        ("gpt2", {"activation_function": ["gelu"]}, "has activation_function = ['gelu']; known: gelu"),
        ("bert", {"intermediate_size": 48}, "has intermediate_size = 48, and its arrays are of 14"),
        ("bert", {"type_vocab_size": 2}, "has type_vocab_size = 2, and its arrays are of 3"),
        ("bert", {"architectures": 3}, "has architectures = 3; a list of names is right"),
        ("bert_classes", {"problem_type": "ranking"}, "has problem_type = 'ranking'; known: single_label"),
        ("hf-vit/vit", {"problem_type": ["x"]}, "has problem_type = ['x']; known: single_label"),
        ("hf-vit/vit", {"image_size": [True, 6]}, "has image_size = [True, 6]; a number or two are right"),
        ("hf-vit/siglip_classes", {"vision_config": [1]}, "has vision_config = [1]; settings are right"),
        ("hf-vit/dinov2", {"layerscale_value": "1"}, "has layerscale_value = '1'; a number is right"),
        ("timm-vit/wide", {"model_args": [1]}, "has model_args = [1]; settings are right"),
        ("timm-vit/wide", {"architecture": "a\nb"}, r"is of the architecture 'a\nb', which isn't a plain ViT"),
        ("timm-vit/wide", {"num_features": 24}, "has num_features = 24, and its arrays are of 12"),
        ("timm-vit/wide", {"pretrained_cfg": {"crop_pct": 9}}, "has crop_pct = 9; a number from 0.01 to 1 is right"),
        ("timm-vit/wide", {"pretrained_cfg": {"std": [0.5, 0, 1]}}, "has std = [0.5, 0, 1]; a number, or one for each"),
        ("timm-vit/wide", {"pretrained_cfg": {"input_size": [3, 0, 6]}}, "has an image size of (0, 6); a number"),
        ("timm-vit/wide", {"label_names": ["a", "b"]}, "has 2 label_names in config.json for 5 classes"),
        ("timm-vit/wide", {"label_names": "ants"}, "has label_names = 'ants'; a list of a name for each class"),
        ("timm-vit/wide", {"label_names": {"0": "a"}}, "has 1 label_names in config.json for 5 classes"),
        ("timm-vit/wide", {"num_classes": 6}, "has num_classes = 6, and its arrays are of 5"),
        ("timm-vit/wide", {"pretrained_cfg": {"input_size": [1, 4, 6]}}, "has input_size = [1, 4, 6]; channels, heig"),
        ("timm-vit/wide", {"pretrained_cfg": {"input_size": [4, 6]}}, "has input_size = [4, 6]; channels, height"),
        ("timm-vit/wide", {"pretrained_cfg": {"crop_pct": 0}}, "has crop_pct = 0; a number from 0.01 to 1 is right"),
        ("hf-vit/vit", {"num_labels": 6, "id2label": None}, "has num_labels = 6, and its arrays are of 5"),
        ("bert_classes", {"num_labels": 2}, "has num_labels = 2, and its arrays are of 3"),
        ("timm-vit/wide", {"label_names": ["a", None, "c", "d", "e"]}, "has label_names 1 = None; text is right"),
    ],
)  # fmt: skip
def test_a_setting_that_contradicts_the_arrays_or_makes_no_sense_is_named(name, config, line, tmp_path):
    folder = copied(GOLDENS / name, tmp_path, config=config)
    found = refused(folder)
    assert line in found
    assert "config.json" in found or "architecture" in found


@pytest.mark.parametrize(("name", "count"), [("bert_classes", 3), ("hf-vit/vit", 5)])
def test_names_of_classes_are_texts_by_index_and_may_be_alike(name, count, tmp_path):
    def labelled(labels):
        config = {"id2label": labels, "label2id": None}
        return copied(GOLDENS / name, tmp_path / str(len(list(tmp_path.iterdir()))), config=config)

    plain = {str(index): "same" for index in range(count)}
    assert leaves(labelled(plain))[0].classes == ("same",) * count
    placeholders = {str(index): f"LABEL_{index}" for index in range(count)}
    assert leaves(labelled(placeholders))[0].classes is None
    assert leaves(labelled({}))[0].classes is None
    for value in (None, ["a"], 1, {"a": "b"}):
        assert f"has id2label 1 = {value!r}; text is right" in refused(labelled({**plain, "1": value}))
    for keys in (range(count - 1), range(1, count + 1), ["a"] * 1, [f"0{index}" for index in range(count)]):
        line = refused(labelled({str(key): "x" for key in keys}))
        assert f"has an id2label of {len(keys)} names in config.json for {count} classes" in line
    assert "has id2label = ['a', 'b']; a table" in refused(labelled(["a", "b"]))


NAMES = {"bert_classes": ("id2label", 3), "hf-vit/vit": ("id2label", 5), "timm-vit/wide": ("label_names", 5)}
"""Goldens, the setting that names their classes, and how many those are."""


def named(golden, names, to, **config):
    """A golden whose classes have these names and others, and what `vitzoo predict` is asked of it."""
    field, count = NAMES[golden]
    names = [*names, *(f"other {index}" for index in range(len(names), count))]
    given = {str(index): name for index, name in enumerate(names)} if field == "id2label" else names
    folder = copied(GOLDENS / golden, to, config={field: given, "label2id": None, **config})
    Image.new("RGB", (6, 4)).save(to / "a.png")
    return ["predict", "--checkpoint", str(folder), *(["--text", "one"] if "bert" in golden else [str(to / "a.png")])]


@pytest.mark.parametrize("golden", NAMES)
@pytest.mark.parametrize("blank", ["", " ", "\u00a0", "\u200b", "\n"])
def test_a_class_whose_name_shows_nothing_is_refused(golden, blank, tmp_path, capsys):
    assert main(named(golden, ["cat", blank], tmp_path)) == 2
    line = f"config.json has {NAMES[golden][0]} 1 = {blank!r}; a name that can be read is right"
    assert capsys.readouterr().err.strip().endswith(line)


@pytest.mark.gate
@pytest.mark.parametrize("golden", NAMES)
def test_classes_that_share_a_name_are_told(golden, tmp_path, capsys):
    """ImageNet's cranes, a bird and a machine, are two of its classes: such weights are used."""
    arguments = named(golden, ["dog", "crane", "crane "], tmp_path)
    assert main(arguments) == 0
    note = "2 classes share a name (crane: 1, 2)"
    assert f"note     {note}\n" in capsys.readouterr().out
    assert main(["convert", arguments[2], str(tmp_path / "ours"), "--format", "vitzoo"]) == 0
    assert note in capsys.readouterr().out


@pytest.mark.parametrize("golden", ["bert_classes", "hf-vit/vit"])
def test_numbers_of_classes_that_contradict_their_names_are_refused(golden, tmp_path, capsys):
    def arguments(label2id, *names):
        to = tmp_path / str(len(list(tmp_path.iterdir())))
        to.mkdir()
        return named(golden, names, to, label2id=label2id)

    for agreeing in ({"cat": 0, "dog": 1}, {"cat": "0", "dog": "1"}, {}, {"dog ": 1}, {"LABEL_0": 0, "LABEL_1": 1}):
        assert leaves(arguments(agreeing, "cat", "dog")[2])[0].classes[:2] == ("cat", "dog")
    assert leaves(arguments({"crane": 1}, "crane", "crane")[2])[0].classes[:2] == ("crane", "crane")
    for wrong, line in (
        ({"cat": 1, "dog": 0}, "has label2id cat = 1, and id2label says 0"),
        ({"cat": 0, "cow": 1}, "has label2id cow = 1, and id2label has no such class"),
        ({"cat": None}, "has label2id cat = None, and id2label says 0"),
        (["cat"], "has label2id = ['cat']; a table of a number for each class is right"),
    ):
        assert main(arguments(wrong, "cat", "dog")) == 2
        assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"do_normalize": "no"}, "has do_normalize = 'no'; true or false is right"),
        ({"do_center_crop": 1}, "has do_center_crop = 1; true or false is right"),
        ({"resample": True}, "has resample = True; known: 0 to 3"),
        ({"size": True}, "has size = True; height and width"),
        ({"size": {"height": 4, "width": 10**9}}, "has size = {'height': 4, 'width': 1000000000}; height and width"),
        (
            {"image_std": [0.5, 0.0, 0.5]},
            "has image_std = [0.5, 0.0, 0.5]; a number, or one for each channel, is right",
        ),
        ({"image_mean": [0.5, 0.5]}, "has image_mean = [0.5, 0.5]; a number, or one for each channel, is right"),
        ({"rescale_factor": 0}, "has rescale_factor = 0; 1/255 or another"),
        ({"rescale_factor": 1e-300}, "has rescale_factor = 1e-300; 1/255 or another"),
    ],
)
def test_a_processor_that_makes_no_sense_is_refused(content, line, tmp_path):
    folder = copied(GOLDENS / "hf-vit" / "vit", tmp_path)
    (folder / "preprocessor_config.json").write_text(json.dumps(content))
    assert f"preprocessor_config.json {line}" in refused(folder)


def grey_weights(folder, form):
    """A grey model as another program keeps it."""
    make_run(folder / "run")
    assert main(["convert", str(folder / "run"), str(folder / form), "--format", form]) == 0
    return folder / form


GREY_FILES = {"hf-vit": ("preprocessor_config.json", "image_"), "timm-vit": ("config.json", "")}


@pytest.mark.parametrize("field", ["mean", "std"])
@pytest.mark.parametrize("form", GREY_FILES)
def test_a_grey_models_mean_and_deviation_are_one_number(form, field, tmp_path):
    folder = grey_weights(tmp_path, form)
    name, prefix = GREY_FILES[form]
    content = json.loads((folder / name).read_text())
    images = content["pretrained_cfg"] if form == "timm-vit" else content
    images[prefix + field] = [0.25, 0.25, 0.25]
    (folder / name).write_text(json.dumps(content))
    assert leaves(folder)[0].preprocessing[field] == (63.75,)  # 255 / 4
    images[prefix + field] = [0.25, 0.5, 0.75]
    (folder / name).write_text(json.dumps(content))
    line = refused(folder)
    assert (
        f"{name} has {prefix}{field} = [0.25, 0.5, 0.75]; its images have one channel, so one number is right" in line
    )


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"crop_fraction": 1e-9}, "crop_fraction = 1e-09: must be at least 0.01"),
        ({"crop_fraction": 0.0}, "crop_fraction = 0.0: must be at least 0.01"),
        ({"std": (1e-46,)}, "too near to 0"),
        ({"std": (1.0, 1.0, 0.0)}, "at least 1e-06"),
        ({"mean": (-1e38,)}, "at most 1e+09"),
    ],
)
def test_preprocessing_keeps_numbers_finite(fields, line):
    with pytest.raises(UserError) as caught:
        build(Preprocessing, fields)
    assert line in str(caught.value)


# ------------------------------------------------------------------------------------------------ text's files


@pytest.mark.parametrize("value", [0, 17, -1, "12", True, 12.0])
def test_a_text_has_as_many_tokens_as_there_are_positions_at_most(value, tmp_path):
    folder = copied(GOLDENS / "sentences", tmp_path)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": value}))
    line = refused(folder)
    assert f"sentence_bert_config.json has max_seq_length = {value!r}; an integer from 1 to 16 is right" in line


@pytest.mark.parametrize("path", ["../evil", "/etc", "a/b", "..", ".", "", 7, None, "x" * 5000])
def test_modules_lie_in_folders_beside_their_list(path, tmp_path):
    folder = copied(GOLDENS / "sentences", tmp_path)
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules))
    line = refused(folder)
    assert f"modules.json has path = {shown(path)}; a folder beside it is right" in line or "name too long" in line


@pytest.mark.parametrize(
    ("file", "content", "line"),
    [
        ("modules.json", [1], "is no list of modules"),
        ("modules.json", [{"path": "", "type": "a\nb"}], r"embeds texts by 'a\nb'; here by"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": 1}, "has pooling_mode_mean_tokens = 1; true or false"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean"]}, "pools its tokens by ['mean']; here by mean or cls"),
        (
            "1_Pooling/config.json",
            {"pooling_mode": "mean", "word_embedding_dimension": 384},
            "and its arrays are of 12",
        ),
        ("sentence_bert_config.json", {"do_lower_case": "yes"}, "has do_lower_case = 'yes'; true or false is right"),
        ("config_sentence_transformers.json", {"prompts": ["a"]}, "has prompts = ['a']; texts by name are right"),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "q"},
            "has default_prompt_name = 'q'; there are []",
        ),
    ],
)
def test_a_folder_of_sentence_transformers_that_makes_no_sense_is_refused(file, content, line, tmp_path):
    folder = copied(GOLDENS / "sentences", tmp_path)
    (folder / file).write_text(json.dumps(content))
    assert line in refused(folder)


def test_a_list_of_modules_one_folder_above_is_anothers(tmp_path):
    (tmp_path / "modules.json").write_text("// what another program keeps here")
    assert leaves(copied(GOLDENS / "sentences", tmp_path))[0].model["pooling"] == "mean"


@pytest.mark.parametrize("name", ["gpt1", "gpt2", "nanogpt", "t5", "bert"])
def test_a_tokenizer_with_more_ids_than_the_model_has_rows_is_refused(name, tmp_path):
    folder = copied(GOLDENS / name, tmp_path)
    if name == "bert":
        with (folder / "vocab.txt").open("a") as file:
            file.write("".join(f"more{index}\n" for index in range(30)))
    elif name == "t5":
        content = json.loads((folder / "tokenizer.json").read_text())
        content["model"]["vocab"] += [[f"more{index}", -9.0] for index in range(30)]
        (folder / "tokenizer.json").write_text(json.dumps(content))
    else:
        content = json.loads((folder / "vocab.json").read_text())
        ids = range(max(content.values()) + 1, 300)
        (folder / "vocab.json").write_text(json.dumps(content | {f"more{id}": id for id in ids}))
    with pytest.raises(UserError, match=r"has [\d,]+ ids, the model [\d,]+; it belongs to another model"):
        open_weights(str(folder / "ckpt.pt" if name == "nanogpt" else folder))


@pytest.mark.parametrize(
    ("name", "file", "change", "line"),
    [
        ("bert", "vocab.txt", lambda text: text + "\n[CLS]\n", r"its lines \d+ and \d+ are both '\[CLS\]'"),
        ("gpt2", "vocab.json", lambda text: text.replace('"Ġ": ', '"aa": "1", "Ġ": '), "its piece 'aa' has '1' for"),
        ("gpt2", "vocab.json", lambda text: text.replace('"Ġ": ', '"aa": 3, "Ġ": '), "its pieces .* have one id, 3"),
        ("gpt2", "vocab.json", lambda text: text.replace('"Ġ": ', '"Ġ": 1, "Ġ": '), "names the field 'Ġ' twice"),
        ("gpt2", "merges.txt", lambda text: text + "a b c\n", "the line 'a b c' of merges.txt isn't two pieces"),
        ("gpt2", "merges.txt", lambda text: text + "qq zz\n", "vocab.json can't be read: .*"),
        ("t5", "tokenizer.json", lambda text: text.replace('"Unigram"', '"Bigram"'), "tokenizer.json can't be read: "),
        ("byt5", "tokenizer_config.json", lambda _: '{"extra_ids": -3}', "has extra_ids = -3; a part of the"),
        ("byt5", "tokenizer_config.json", lambda _: '{"extra_ids": 1000000000}', "has extra_ids = 1000000000; a part"),
        ("gpt2", "tokenizer_config.json", lambda _: '{"add_prefix_space": "no"}', "has add_prefix_space = 'no'; true"),
        ("gpt2", "tokenizer_config.json", lambda _: '{"added_tokens_decoder": {"x": "a"}}', "added_tokens_decoder = "),
        ("gpt2", "tokenizer_config.json", lambda _: '{"added_tokens_decoder": {"280": 1}}', "added_tokens_decoder = "),
        ("gpt2", "added_tokens.json", lambda _: '{"more": "280"}', "has 'more' = '280'; an id is right"),
    ],
)  # fmt: skip
def test_a_tokenizers_files_that_make_no_sense_are_refused(name, file, change, line, tmp_path):
    folder = copied(GOLDENS / name, tmp_path)
    path = folder / file
    changed = change(path.read_text(encoding="utf-8") if path.exists() else "")
    path.write_text(changed, encoding="utf-8")
    assert re.search(line, refused(folder))
