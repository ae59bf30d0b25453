"""Where `config.json` names a model's type or architecture, it decides: names and shapes of arrays never overrule
it. The types, architectures and settings are those of transformers' own configurations."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from published import copied, leaves, refused

from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.weights.open import open_weights

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
OF_EACH_FORMAT = ("gpt2", "gpt1", "t5", "bert", "hf-vit/vit", "hf-vit/dinov2", "hf-vit/siglip", "timm-vit/deit3")
OTHERS = (
    "roberta",
    "llama",
    "distilbert",
    "albert",
    "dinov3_vit",
    "beit",
    "gpt_bigcode",
    "gpt_neo",
    "clip",
    "timm_wrapper",
)


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_a_type_that_is_not_read_is_refused_by_its_name_whatever_the_arrays(number, tmp_path):
    for golden in (OF_EACH_FORMAT[number % len(OF_EACH_FORMAT)], OF_EACH_FORMAT[(number + 3) % len(OF_EACH_FORMAT)]):
        folder = copied(GOLDENS / golden, tmp_path / golden, config={"model_type": OTHERS[number]})
        assert f"config.json has model_type = '{OTHERS[number]}', which isn't read here; known: bert, gpt2" in refused(
            folder
        )


@pytest.mark.parametrize(("stated", "shown"), [(5, "5"), ([], "[]"), ({}, "{}"), (True, "True"), ("", "''")])
def test_a_type_that_is_no_name_is_refused(stated, shown, tmp_path):
    assert f"has model_type = {shown}, which isn't read here" in refused(
        copied(GOLDENS / "gpt2", tmp_path, config={"model_type": stated})
    )


@pytest.mark.parametrize(
    ("golden", "stated"),
    [
        ("gpt2", "bert"),
        ("gpt1", "gpt2"),
        ("bert", "vit"),
        ("t5", "openai-gpt"),
        ("hf-vit/siglip", "vit"),
        ("hf-vit/vit", "dinov2"),
        ("hf-vit/vit", "deit"),
        ("hf-vit/deit", "vit"),
        ("hf-vit/registers", "dinov2"),
        ("timm-vit/deit3", "vit"),
    ],
)
def test_arrays_of_another_type_than_the_stated_one_are_refused(golden, stated, tmp_path):
    line = refused(copied(GOLDENS / golden, tmp_path, config={"model_type": stated, "architectures": None}))
    assert f"config.json has model_type = '{stated}'" in line


BIGCODE = {"model_type": "gpt_bigcode", "multi_query": False, "activation_function": "gelu_pytorch_tanh"}


def bigcode(to, **config):
    """GPT-2's arrays as GPT-BigCode without shared keys has them: nanoGPT's names and shapes."""
    folder = copied(GOLDENS / "gpt2", to, config={**BIGCODE, "architectures": ["GPTBigCodeForCausalLM"], **config})
    arrays = safetensors.numpy.load_file(folder / "model.safetensors")
    arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
    kernels = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    turned = {
        f"transformer.{name}": np.ascontiguousarray(array.T) if name.endswith(kernels) else array
        for name, array in arrays.items()
    }
    safetensors.numpy.save_file(turned, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("form", ["", "nanogpt", "gpt2"])
def test_a_gpt_bigcode_is_not_taken_for_a_nanogpt(form, tmp_path):
    with pytest.raises(UserError, match="has model_type = 'gpt_bigcode', which isn't read here"):
        open_weights(str(bigcode(tmp_path)), form=form)


def test_without_a_type_the_other_settings_beside_the_arrays_still_count(tmp_path):
    other = {"model_type": None, "architectures": None, "multi_query": None}
    folder = bigcode(tmp_path, **other)
    assert open_weights(str(folder)).description["model"]["activation"] == "gelu_tanh"
    for name, value in {"multi_query": True, "activation_function": "mish", "scale_attn_weights": False}.items():
        shutil.rmtree(folder)
        bigcode(tmp_path, **{**other, name: value})
        assert f"has {name} = {value!r}" in refused(folder)


@pytest.mark.parametrize(
    ("golden", "form", "right"),
    [
        ("gpt2", "nanogpt", "gpt2"),
        ("bert", "hf-vit", "bert"),
        ("hf-vit/vit", "timm-vit", "hf-vit"),
        ("timm-vit/deit3", "facebook-vit", "timm-vit"),
    ],
)
def test_a_format_that_is_not_the_types_is_refused(golden, form, right):
    with pytest.raises(
        UserError, match=rf"--source-format = {form}: config.json has .*, which is of the format {right}"
    ):
        open_weights(str(GOLDENS / golden), form=form)


@pytest.mark.parametrize(
    ("golden", "architecture"),
    [
        ("gpt2", "GPT2ForSequenceClassification"),
        ("gpt2", "GPT2DoubleHeadsModel"),
        ("t5", "T5ForSequenceClassification"),
        ("t5", "T5EncoderModel"),
        ("bert", "BertForQuestionAnswering"),
        ("bert", "BertForNER"),
        ("gpt1", "OpenAIGPTForSequenceClassification"),
        ("hf-vit/dinov2", "Dinov2Backbone"),
        ("hf-vit/siglip", "SiglipTextModel"),
    ],
)
def test_an_architecture_that_is_not_read_is_refused_by_its_name(golden, architecture, tmp_path):
    line = refused(copied(GOLDENS / golden, tmp_path, config={"architectures": [architecture]}))
    assert f"config.json has architectures = '{architecture}', which " in line


UNREAD = {
    "gpt2": ("GPTBigCodeForCausalLM", "GPTNeoForCausalLM", "GPT2ForSequenceClassification", "LlamaForCausalLM"),
    "bert": (
        *("RobertaModel", "XLMRobertaModel", "ElectraModel", "SplinterModel", "ErnieModel", "Data2VecTextModel"),
        *("BertForMultipleChoice", "BertLMHeadModel", "MegatronBertModel", "LayoutLMModel", "MyOwnModel"),
    ),
    "t5": ("UMT5ForConditionalGeneration", "UMT5Model", "LongT5ForConditionalGeneration", "T5EncoderModel"),
    "gpt1": ("OpenAIGPTDoubleHeadsModel", "CTRLModel"),
    "hf-vit/vit": ("ViTMSNModel", "ViTMSNForImageClassification", "YolosModel", "VivitModel", "BeitModel"),
    "hf-vit/dinov2": ("Dinov2Backbone", "DINOv3ViTModel"),
    "hf-vit/siglip": ("Siglip2Model", "CLIPModel"),
    "timm-vit/deit3": ("TimmWrapperForImageClassification",),
}
"""transformers' classes whose arrays have the names and shapes of those that are read, or nearly."""


@pytest.mark.parametrize(("golden", "architecture"), [(golden, one) for golden in UNREAD for one in UNREAD[golden]])
def test_without_a_type_the_architecture_alone_decides(golden, architecture, tmp_path):
    folder = copied(GOLDENS / golden, tmp_path, config={"model_type": None, "architectures": [architecture]})
    assert f"config.json has architectures = '{architecture}', which " in refused(folder)
    with pytest.raises(UserError, match=f"has architectures = '{architecture}', which "):
        open_weights(str(folder), form=golden.split("/")[0].replace("gpt1", "openai-gpt"))


@pytest.mark.parametrize("form", ["", "nanogpt", "gpt2"])
def test_a_gpt_bigcode_is_known_by_its_architecture_too(form, tmp_path):
    with pytest.raises(UserError, match="has architectures = 'GPTBigCodeForCausalLM', which isn't read here"):
        open_weights(str(bigcode(tmp_path, model_type=None, multi_query=None)), form=form)


@pytest.mark.parametrize(
    "golden",
    [
        "gpt2",
        "gpt1",
        "t5",
        "mt5",
        "bert",
        "bert_tags",
        "hf-vit/vit",
        "hf-vit/deit",
        "hf-vit/registers",
        "hf-vit/siglip",
    ],
)
def test_an_architecture_that_is_read_says_what_its_type_does(golden, tmp_path):
    reading, of_architecture = leaves(copied(GOLDENS / golden, tmp_path, config={"model_type": None}))
    expected, of_type = leaves(GOLDENS / golden)
    assert (reading.model, reading.notes) == (expected.model, expected.notes)
    assert of_architecture.keys() == of_type.keys()


@pytest.mark.parametrize(
    ("golden", "architecture"),
    [
        ("gpt2", "BertModel"),
        ("bert", "ViTModel"),
        ("t5", "OpenAIGPTLMHeadModel"),
        ("hf-vit/vit", "DeiTModel"),
        ("hf-vit/vit", "Dinov2Model"),
        ("hf-vit/registers", "Dinov2Model"),
    ],
)
def test_arrays_of_another_architecture_than_the_stated_one_are_refused(golden, architecture, tmp_path):
    config = {"model_type": None, "architectures": [architecture]}
    assert f"config.json has architectures = '{architecture}', " in refused(
        copied(GOLDENS / golden, tmp_path, config=config)
    )


@pytest.mark.parametrize(("golden", "stated"), [("gpt2", "GPT2Model"), ("bert", [5]), ("hf-vit/vit", {"ViTModel": 1})])
def test_architectures_that_are_no_list_of_names_are_refused(golden, stated, tmp_path):
    for kind in ({}, {"model_type": None}):
        folder = copied(GOLDENS / golden, tmp_path / f"{len(kind)}", config={"architectures": stated, **kind})
        assert "config.json has architectures = " in (line := refused(folder))
        assert line.endswith("a list of names is right")


@pytest.mark.parametrize(
    ("golden", "setting", "value"),
    [
        ("gpt2", "quantization_config", {"bits": 4}),
        ("bert", "quantization_config", {"bits": 8}),
        ("hf-vit/vit", "pruned_heads", {"0": [1]}),
        ("timm-vit/deit3", "quantization_config", {"bits": 4}),
        ("t5", "dense_act_fn", "tanh"),
        ("t5_v1_1", "is_gated_act", False),
        ("gpt2", "activation_function", "quick_gelu"),
        ("bert", "hidden_act", "mish"),
        ("hf-vit/vit", "hidden_act", "relu6"),
    ],
)
def test_settings_that_mean_another_model_are_refused_by_name(golden, setting, value, tmp_path):
    line = refused(copied(GOLDENS / golden, tmp_path, config={setting: value}))
    assert f"config.json has {setting} = {value!r}" in line


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("roberta.encoder.layer.0.attention.self.query.weight", "a RoBERTa"),
        ("lm_head.layer_norm.weight", "a RoBERTa"),
        ("model.layers.0.self_attn.q_proj.weight", "a LLaMA"),
        ("distilbert.embeddings.word_embeddings.weight", "a DistilBERT"),
        ("albert.encoder.x", "an ALBERT"),
        ("encoder.layer.0.lambda_1", "a BEiT"),
        ("layer.0.attention.o_proj.weight", "a DINOv3"),
        ("rope_embed.periods", "a DINOv3"),
        ("blocks.0.attn.q_bias", "a BEiT"),
        ("beit.encoder.layer.0.attention.attention.relative_position_bias.relative_position_bias_table", "a BEiT"),
    ],
)
def test_without_a_config_a_model_that_is_not_read_is_known_by_its_names(name, model, tmp_path):
    arrays = safetensors.numpy.load_file(GOLDENS / "bert" / "model.safetensors")
    safetensors.numpy.save_file({**arrays, name: np.ones(2, np.float32)}, tmp_path / "model.safetensors")
    assert f"is {model}" in refused(tmp_path)


def test_a_robertas_body_without_a_config_is_not_taken_for_a_berts(tmp_path):
    arrays = safetensors.numpy.load_file(GOLDENS / "bert" / "model.safetensors")
    name = next(name for name in arrays if name.endswith("token_type_embeddings.weight"))
    safetensors.numpy.save_file({**arrays, name: arrays[name][:1]}, tmp_path / "model.safetensors")
    assert "one kind of sentences as RoBERTa has, which isn't read here" in refused(tmp_path, num_heads=3)


@pytest.mark.parametrize(("golden", "heads", "kind"), [("gpt2", 3, "a GPT-2"), ("bert", 3, "a BERT")])
def test_what_only_names_decide_is_said(golden, heads, kind, tmp_path):
    folder = copied(GOLDENS / golden, tmp_path)
    (folder / "config.json").unlink()
    notes = open_weights(str(folder), {"num_heads": heads}).reading.notes
    assert any(f"there is no config.json: taken for {kind}" in note for note in notes)


def test_a_gpt2_with_a_head_of_classes_says_so_without_a_config_too(tmp_path):
    folder = copied(GOLDENS / "gpt2", tmp_path, arrays={"score.weight": np.ones((2, 12), np.float32)})
    assert "has a head of classes of texts (score.weight), which no GPT here has" in refused(folder)


def test_a_dinov2_with_a_size_that_its_type_does_not_have_is_read_as_transformers_does(tmp_path):
    folder = copied(GOLDENS / "hf-vit" / "dinov2", tmp_path, config={"intermediate_size": 3072})
    assert (
        open_weights(str(folder)).description["model"]
        == open_weights(str(GOLDENS / "hf-vit" / "dinov2")).description["model"]
    )


def test_the_commands_refuse_such_files_in_one_line(tmp_path, capsys):
    folder = copied(GOLDENS / "gpt2", tmp_path, config={"model_type": "llama"})
    for command in (
        ["generate", "--checkpoint", str(folder), "--prompt", "a"],
        ["convert", str(folder), str(tmp_path / "x")],
    ):
        assert main(command) == 2
        said = capsys.readouterr().err.strip()
        assert "config.json has model_type = 'llama', which isn't read here" in said
        assert len([line for line in said.splitlines() if "llama" in line]) == 1
