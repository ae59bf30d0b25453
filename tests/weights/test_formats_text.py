"""Published text models: transformers' and nanoGPT's files read to the same numbers, written back bitwise, and refused
by name where they hold what no model here has."""

import dataclasses
import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import published
import pytest
from published import leaves, read, refused, written

from vitzoo.data.text.packing import Layout
from vitzoo.errors import UserError
from vitzoo.models.gpt import GPTConfig
from vitzoo.models.t5 import T5Config
from vitzoo.nn import state
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.formats.registry import find_format, recognise
from vitzoo.weights.open import open_weights, read_weights

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
FORMATS = {
    "gpt2": "gpt2",
    "gpt1": "openai-gpt",
    "nanogpt": "nanogpt",
    "t5": "t5",
    "t5_v1_1": "t5",
    "mt5": "t5",
    "byt5": "t5",
    "bert": "bert",
    "bert_masked": "bert",
    "bert_classes": "bert",
    "bert_number": "bert",
    "bert_tags": "bert",
    "sentences": "bert",
}
PREFIX = {"gpt2": "transformer."}
"""What our files have before the names that these goldens lack, as the published files do."""


def place(name):
    """A golden's path; nanoGPT's file lies beside another that holds arrays."""
    return GOLDENS / name / "ckpt.pt" if name == "nanogpt" else GOLDENS / name


@pytest.fixture(scope="module")
def golden():
    """Reads a golden once: model, reading, config, leaves, and what is expected of it."""
    return published.reader(GOLDENS, lambda name: place(name).relative_to(GOLDENS))


def copied(name, to, **changes):
    """A golden's files with changes."""
    return published.copied(GOLDENS / name, to, **changes)


def outputs(model, expected):
    """What a model gives for a golden's inputs, under the golden's names."""
    graph, params = state.split(model)
    compiled = jax.jit(
        lambda params: computed(state.merge(graph, params), expected),
        compiler_options={"xla_backend_optimization_level": 0},
    )
    return compiled(params)


def computed(model, expected):
    given = {
        name: jnp.asarray(value) for name, value in expected.items() if value.dtype.kind == "i" and value.ndim == 2
    }
    if "source" in given:
        source = {"source_segments": given["source_segments"]}
        return {"logits": model(given["source"], given["tokens"], **source)}
    shared = {name: given[name] for name in ("tokens_segments", "tokens_types") if name in given}
    found = {"logits": model(given["tokens"], **shared)}
    if "hidden" in expected:
        x = found.pop("logits")
        found |= {
            "hidden": x,
            "pooled": model.pooled(x),
            "embedding": model.sentence_embedding(x, given["tokens_segments"]),
        }
    if "follows" in expected:
        found["follows"] = model.next_sentence_logits(model.encode(given["tokens"], **shared))
    return found


COMPUTED = ("gpt2", "nanogpt", "t5", "bert", "sentences")
"""Those that are always computed; the others differ from them in names and heads."""


@pytest.mark.parametrize(
    "name", [name if name in COMPUTED else pytest.param(name, marks=pytest.mark.slow) for name in FORMATS]
)
def test_the_numbers_and_what_is_written_are_those_of_the_source(name, golden):
    model, _, _, _, expected = golden(name)
    assert recognise(open_weights_file(str(place(name)))).name == FORMATS[name]
    found = outputs(model, expected)
    if count := int(expected.get("greedy", 0)):
        written = np.asarray(found["logits"])[0, -count - 1 : -1].argmax(-1)
        assert written.tolist() == expected["tokens"][0, -count:].tolist()
    for key, value in found.items():
        wanted = expected[key].reshape(value.shape)
        real = (
            expected["tokens_segments"] > 0
            if value.shape[:2] == expected["tokens_segments"].shape
            else np.ones(len(value), bool)
        )
        np.testing.assert_allclose(np.asarray(value)[real], wanted[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "nanogpt"])
def test_the_ids_of_texts_are_those_of_the_sources_tokenizer(name, golden):
    _, reading, _, _, expected = golden(name)
    tokenizer = reading.tokenizer

    def ids(*texts):
        parts = [tokenizer.encode(str(text)) for text in texts]
        if FORMATS[name] == "bert":
            return Layout(tokenizer, 512)(parts)[0].tolist()
        return parts[0].tolist() + ([tokenizer.end_id] if FORMATS[name] == "t5" else [])

    for key in (key for key in expected if key.startswith("text_")):
        assert ids(expected[key]) == expected[key.replace("text", "ids")].tolist()
    if "pair_0" in expected:
        assert ids(expected["first_0"], expected["second_0"]) == expected["pair_0"].tolist()


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "nanogpt"])
def test_what_is_read_goes_out_bitwise_and_with_the_same_settings(name, golden):
    _, reading, config, params, _ = golden(name)
    description = {
        "classes": reading.classes,
        "objective": reading.objective,
        "inputs": {"tokens": {"kind": "text", **reading.preprocessing}},
    }
    arrays, writing = written(find_format(FORMATS[name]), config, params, **description)
    prefix = PREFIX.get(name, "")
    theirs = {f"{prefix}{key}": array for key, array in open_weights_file(str(GOLDENS / name)).tensors.items()}
    assert arrays.keys() == theirs.keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, theirs[key], strict=True)
    stated = json.loads((GOLDENS / name / "config.json").read_text())
    untied = {} if name not in ("t5_v1_1", "byt5") else {"tie_word_embeddings": True}  # transformers 5 writes it always
    mt5 = {"model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]} if name == "mt5" else {}
    same = {key: value for key, value in {**writing.config, **untied, **mt5}.items() if key in stated}
    assert same == {key: stated[key] for key in same}


@pytest.mark.parametrize("name", ["gpt2", "gpt1", "t5", "bert"])
def test_a_missing_an_extra_and_a_misshaped_array_are_named(name, tmp_path):
    last = {
        "gpt2": "h.1.mlp.c_fc.bias",
        "gpt1": "transformer.h.1.mlp.c_fc.bias",
        "t5": "decoder.final_layer_norm.weight",
        "bert": "bert.encoder.layer.1.output.dense.bias",
    }[name]
    lost = copied(name, tmp_path / "lost", arrays=lambda a: {k: v for k, v in a.items() if k != last})
    assert f"it misses {last}" in refused(lost)
    more = copied(name, tmp_path / "more", arrays=lambda a: {**a, "another.weight": np.ones(3, np.float32)})
    assert "it also has another.weight" in refused(more)
    odd = copied(name, tmp_path / "odd", arrays=lambda a: {**a, last: np.ones(3, np.float32)})
    if name == "t5":  # of no stack of layers, so that only the model tells
        with pytest.raises(UserError, match=rf"{last} of shape \(3,\), which makes decoder/norm/scale .*has \(10,\)"):
            read_weights(open_weights(str(odd)))
    else:
        assert f"has {last} of shape (3,), which isn't that of the layers before" in refused(odd)


def test_gpt2_with_prefix_masks_and_the_head_once_more(tmp_path, golden):
    params = golden("gpt2")[3]

    def more(arrays):
        masks = {f"h.{i}.attn.bias": np.tril(np.ones((1, 1, 16, 16), np.float32)) for i in range(2)}
        masks |= {f"h.{i}.attn.masked_bias": np.float32([-1e4]) for i in range(2)}
        named = {f"transformer.{key}": array for key, array in (arrays | masks).items()}
        return {**named, "lm_head.weight": arrays["wte.weight"]}

    (
        _,
        _,
        config,
        found,
    ) = read(copied("gpt2", tmp_path, arrays=more))
    assert config.tied_head
    for path, leaf in params.items():
        np.testing.assert_array_equal(found[path], leaf)


def test_gpt2_in_a_file_of_torch_is_the_same(tmp_path, golden):
    folder = copied("gpt2", tmp_path)
    (folder / "model.safetensors").unlink()
    shutil.copy(GOLDENS / "gpt2_torch" / "pytorch_model.bin", folder)
    reading, found = leaves(folder)
    assert reading.model == golden("gpt2")[1].model
    for path, leaf in golden("gpt2")[3].items():
        np.testing.assert_array_equal(found[path], leaf)


def test_gpt2_with_a_head_of_its_own_goes_in_and_out(tmp_path, golden):
    head = np.random.default_rng(0).normal(size=(280, 12)).astype(np.float32)
    own = {"tie_word_embeddings": False}
    folder = copied("gpt2", tmp_path, config=own, arrays=lambda arrays: {**arrays, "lm_head.weight": head})
    model, _, config, params = read(folder)
    assert not config.tied_head
    np.testing.assert_array_equal(model.head.kernel[...], head.T)
    arrays, writing = written(find_format("gpt2"), config, params)
    np.testing.assert_array_equal(arrays["lm_head.weight"], head)
    assert writing.config["tie_word_embeddings"] is False


@pytest.mark.parametrize("name", ["gpt2", "gpt1"])
@pytest.mark.parametrize("stated", [True, None])
def test_a_head_that_isnt_the_embedding_though_the_config_ties_it_is_refused(name, stated, tmp_path):
    # transformers would put the embedding in its place: `tie_word_embeddings` is true unless it is said
    prefix = "transformer." if name == "gpt1" else ""
    table = f"{prefix}{'tokens_embed' if name == 'gpt1' else 'wte'}.weight"
    for change, line in ((0, None), (0.5, f"has lm_head.weight that isn't {table}, and config.json ")):
        folder = copied(
            name,
            tmp_path / f"{change}",
            config={"tie_word_embeddings": stated},
            arrays=lambda arrays, change=change: {**arrays, "lm_head.weight": arrays[table] + np.float32(change)},
        )
        if line is None:
            assert read(folder)[2].tied_head
        else:
            assert line in refused(folder)


def test_added_rows_of_a_vocabulary_dont_go_out():
    config = GPTConfig(vocabulary_size=30, vocabulary_multiple=32, width=8, depth=1, num_heads=2, tied_head=False)
    cut = find_format("gpt2").write(config, GPT_LEAVES, {}, None)
    arrays = dict(item for item in cut.tensors if item[0] in ("transformer.wte.weight", "lm_head.weight"))
    assert {name: array.shape for name, array in arrays.items()} == {
        "transformer.wte.weight": (30, 8),
        "lm_head.weight": (30, 8),
    }


GPT_LEAVES = {
    "embedding/table": np.ones((32, 8)),
    "position_embedding/table": np.ones((1024, 8)),
    "head/kernel": np.ones((8, 32)),
    "decoder/norm/scale": np.ones(8),
    "decoder/norm/bias": np.ones(8),
    **{f"decoder/blocks/*/norm{i}/{leaf}": np.ones((1, 8)) for i in (1, 2) for leaf in ("scale", "bias")},
    **{f"decoder/blocks/*/attention/{part}/kernel": np.ones((1, 8, 2, 4)) for part in ("query", "key", "value")},
    **{f"decoder/blocks/*/attention/{part}/bias": np.ones((1, 2, 4)) for part in ("query", "key", "value")},
    "decoder/blocks/*/attention/out/kernel": np.ones((1, 2, 4, 8)),
    "decoder/blocks/*/attention/out/bias": np.ones((1, 8)),
    "decoder/blocks/*/mlp/up/kernel": np.ones((1, 8, 32)),
    "decoder/blocks/*/mlp/up/bias": np.ones((1, 32)),
    "decoder/blocks/*/mlp/down/kernel": np.ones((1, 32, 8)),
    "decoder/blocks/*/mlp/down/bias": np.ones((1, 8)),
}


def test_nanogpts_settings_are_beside_its_weights(golden):
    _, reading, config, _, _ = golden("nanogpt")
    assert (config.num_heads, config.bias, config.norm_bias, config.activation) == (3, False, False, "gelu_exact")
    assert config.vocabulary_size == 288
    assert reading.tokenizer.vocabulary_size == 280
    older = read(place("nanogpt"), activation="gelu_tanh")[2]
    assert older.activation == "gelu_tanh"


def test_t5s_unused_table_and_the_embedding_again_are_left_aside(tmp_path, golden):
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"

    def more(arrays):
        shared = arrays["shared.weight"]
        again = {f"{part}.weight": shared for part in ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head")}
        return {**arrays, **again, unused: np.ones((8, 3), np.float32)}

    folder = copied("t5", tmp_path, arrays=more)
    assert read(folder)[2] == golden("t5")[2]
    other = copied("t5", tmp_path / "o", arrays=lambda a: {**a, "encoder.embed_tokens.weight": a["shared.weight"] + 1})
    assert "it also has encoder.embed_tokens.weight" in refused(other)


def test_where_t5s_head_is_scaled_is_told_by_config_and_file(tmp_path, golden):
    def config_of(name, where, **settings):
        return read(copied(name, tmp_path / where, config=settings))[2]

    x = np.random.default_rng(0).normal(size=(1, 2, 10)).astype(np.float32)
    for name, factor in (("t5", 10**-0.5), ("mt5", 1)):
        model, _, _, params, _ = golden(name)
        np.testing.assert_allclose(model.logits(x), factor * x @ params["embedding/table"].T, atol=1e-5)
    assert golden("t5")[2].scales_head
    assert golden("mt5")[2].scale_head is False
    assert golden("mt5")[2].tied_head
    assert golden("t5_v1_1")[2].scale_head is None
    older = {"scale_decoder_outputs": None, "tie_word_embeddings": False}  # as the published files of version 1.1
    assert not config_of("t5_v1_1", "older", **older).scales_head
    assert config_of("t5_v1_1", "odd", scale_decoder_outputs=True).scale_head is True
    bare = copied("t5_v1_1", tmp_path / "bare")
    (bare / "config.json").unlink()
    _, reading, config, _ = read(bare)
    assert (config.activation, config.scales_head, config.num_heads, config.head_dim) == ("gelu_tanh", False, 3, 4)
    assert "no config.json" in reading.notes[0]


def test_t5s_division_of_logits_goes_out_in_the_queries(golden):
    _, _, config, params, _ = golden("t5")
    plain, _ = written(find_format("t5"), config, params)
    divided, writing = written(find_format("t5"), dataclasses.replace(config, scale_attention=True), params)
    assert "scale_attention" not in writing.config
    for name, array in divided.items():
        np.testing.assert_array_equal(array, plain[name] / (2 if name.endswith("Attention.q.weight") else 1))


def test_bert_of_the_first_files_has_gamma_beta_copies_and_buffers(tmp_path, golden):
    params = golden("bert")[3]

    def old(arrays):
        norms = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, name in norms.items():
            arrays = {key.replace(new, name): array for key, array in arrays.items()}
        table, bias = arrays["bert.embeddings.word_embeddings.weight"], arrays["cls.predictions.bias"]
        copies = {"cls.predictions.decoder.weight": table, "cls.predictions.decoder.bias": bias}
        return {**arrays, **copies, "bert.embeddings.position_ids": np.arange(16)[None]}

    _, found = leaves(copied("bert", tmp_path, arrays=old))
    for path, leaf in params.items():
        np.testing.assert_array_equal(found[path], leaf)

    def untied(arrays):
        return {**arrays, "cls.predictions.decoder.weight": arrays["bert.embeddings.word_embeddings.weight"] + 1}

    line = refused(copied("bert", tmp_path / "untied", arrays=untied))
    assert "cls.predictions.decoder.weight that isn't bert.embeddings.word_embeddings.weight" in line


def test_bert_without_prefix_or_config_needs_its_heads(tmp_path, golden):
    folder = copied("sentences", tmp_path)
    (folder / "config.json").unlink()
    assert "says num_heads (of a width of 12); give --config.model.num_heads=" in refused(folder)
    assert read(folder, num_heads=3)[2].num_heads == 3
    assert "num_heads = 5, which doesn't divide 12, the size of all heads" in refused(folder, num_heads=5)


def test_heads_of_bert_say_what_they_are_for(golden, tmp_path):
    _, reading, config, _, _ = golden("bert_classes")
    assert reading.classes == ("no", "perhaps", "yes")
    assert reading.objective == {"name": "sequence_classification"}
    assert (config.head, config.num_classes) == ("classes", 3)
    assert golden("bert_number")[1].objective == {"name": "regression"}
    assert golden("bert_tags")[2].pooler is False
    several = copied("bert_classes", tmp_path, config={"problem_type": "multi_label_classification"})
    assert read(several)[1].objective == {"name": "sequence_classification", "loss": "sigmoid"}
    wrong = copied("bert_classes", tmp_path / "wrong", config={"id2label": {"0": "a", "1": "b"}})
    assert "an id2label of 2 names in config.json for 3 classes" in refused(wrong)


@pytest.mark.parametrize(
    ("name", "config", "line"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "has scale_attn_by_inverse_layer_idx = True; here it can"),
        ("gpt2", {"model_type": "gpt_bigcode"}, "has model_type = 'gpt_bigcode', which isn't read here"),
        ("gpt2", {"activation_function": "quick_gelu"}, "has activation_function = 'quick_gelu'; known: gelu"),
        ("gpt1", {"afn": "tanh"}, "has afn = 'tanh'; known: gelu"),
        ("t5", {"model_type": "umt5"}, "has model_type = 'umt5', which has a table of distances in every layer"),
        ("t5", {"feed_forward_proj": "gated-tanh"}, "has feed_forward_proj = 'gated-tanh'"),
        ("bert", {"model_type": "roberta"}, "has model_type = 'roberta', which isn't read here"),
        ("bert", {"position_embedding_type": "relative_key"}, "has position_embedding_type = 'relative_key'"),
        ("bert", {"is_decoder": True}, "has is_decoder = True"),
        ("bert_classes", {"architectures": ["BertForMultipleChoice"]}, "which chooses among texts"),
    ],
)  # fmt: skip
def test_settings_that_have_no_place_here_are_refused_by_name(name, config, line, tmp_path):
    assert line in refused(copied(name, tmp_path, config=config))


def test_a_t5s_encoder_alone_and_an_umt5_without_config_are_refused(tmp_path):
    alone = copied("t5", tmp_path, arrays=lambda a: {k: v for k, v in a.items() if not k.startswith("decoder")})
    assert "holds the encoder of a T5 alone" in refused(alone)
    table = "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"
    more = copied("t5", tmp_path / "m", arrays=lambda a: {**a, table: np.ones((8, 3), np.float32)})
    assert "is an umT5" in refused(more)


def test_sentence_transformers_say_how_texts_are_embedded(tmp_path):
    def changed(where, file, content):
        folder = copied("sentences", tmp_path / where)
        (folder / file).write_text(json.dumps(content))
        return folder

    _, reading, config, _ = read(GOLDENS / "sentences")
    assert (config.pooling, config.unit_embedding, reading.preprocessing["length"]) == ("mean", True, 12)
    first = changed("cls", "1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    model, _, config, _ = read(first)
    assert config.pooling == "cls"
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 12)))
    unit = x[:, 0] / jnp.linalg.norm(x[:, 0], axis=-1, keepdims=True)
    np.testing.assert_allclose(model.sentence_embedding(x, jnp.ones((2, 3), jnp.int32)), unit, atol=1e-6)
    most = changed("max", "1_Pooling/config.json", {"pooling_mode_max_tokens": True})
    assert "pools its tokens by max_tokens; here by mean or cls" in refused(most)
    modules = json.loads((GOLDENS / "sentences" / "modules.json").read_text())
    dense = [*modules[:2], {**modules[2], "type": "sentence_transformers.models.Dense"}]
    assert "by Transformer then Pooling then Dense" in refused(changed("dense", "modules.json", dense))
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "query"}
    _, reading, _, _ = read(changed("prompts", "config_sentence_transformers.json", prompts))
    assert reading.preprocessing["prefix"] == "query: "
    assert "passage 'passage: '" in reading.notes[-1]


def test_sentence_transformers_first_folders_have_the_weights_one_below(tmp_path):
    folder = copied("sentences", tmp_path)
    inner = folder / "0_BERT"
    inner.mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "sentence_bert_config.json"):
        (folder / name).rename(inner / name)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([{**modules[0], "path": "0_BERT"}, *modules[1:]]))
    assert read(inner)[2].unit_embedding


def test_models_with_no_place_in_a_format_dont_go_out():
    def line(form, config):
        with pytest.raises(UserError) as caught:
            find_format(form).write(config, {}, {}, None)
        return str(caught.value)

    sizes = {"vocabulary_size": 8, "width": 8, "depth": 1, "num_heads": 2}
    assert "model.positions = rotary: has no place in GPT-2's format" in line(
        "gpt2", GPTConfig(positions="rotary", **sizes)
    )
    assert "model.pre_norm = False" in line("gpt2", GPTConfig(pre_norm=False, **sizes))
    assert "model.mlp_dim = 3072: has no place in GPT-1's format" in line(
        "openai-gpt", GPTConfig(pre_norm=False, **sizes)
    )
    assert "model.norm_bias = False" in line("gpt2", GPTConfig(norm_bias=False, **sizes))
    assert "model.num_kv_heads = 1" in line("gpt2", GPTConfig(num_kv_heads=1, **sizes))
    assert "model.activation = another: has no place in T5's format" in line("t5", T5Config(activation="another"))
