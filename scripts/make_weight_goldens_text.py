"""Makes tests/goldens/weights/NAME: small text models with random weights as transformers (and nanoGPT) keep them, with
what these compute.

In an environment of its own, which vitzoo and its tests don't need:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch transformers
    /tmp/peer/bin/python scripts/make_weight_goldens_text.py tests/goldens/weights

Beside the published files lies `expected.npz`: `tokens`, `segments` (1 for a real token) and `sentence_types` where
there are any; `source_tokens` and `source_segments` of an encoder-decoder; `logits`, or `hidden` without a head,
`embedding` of sentence-transformers; `greedy`, how many of the first row's last tokens the model has written itself;
`text_I` and `ids_I`, texts and their ids with the special tokens that the model's input form has; `first_0`, `second_0`
and `pair_0` of a pair.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import torch.nn.functional as F
import transformers
from tokenizers import models, normalizers, pre_tokenizers, trainers
from torch import nn

TEXTS = (
    "The quick brown fox isn't here.",
    "  two  spaces, 3 numbers",
    "Crème brûlée costs 4,50 € in 東京 ☃",
    "an END [of] a\nline",
)
PAIR = ("The quick fox", "isn't in the line")
TRAINING = [*TEXTS, "the quick line of the fox is here in the end", "here and there, the numbers of the spaces"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def randomise(model: nn.Module) -> None:
    """Every parameter counts, and the scales of norms are about 1."""
    for name, parameter in model.named_parameters():
        scale = any(part in name.lower() for part in ("norm", "ln_")) and name.endswith("weight")
        nn.init.normal_(parameter, mean=float(scale), std=0.2)


def save(model: Any, folder: Path, expected: dict[str, Any], *, prefix: str = "", pairs: bool = False) -> None:
    """The model as published files, `prefix` taken off its names, what it computes, and its tokenizer's ids."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)
    if prefix:
        file = folder / "model.safetensors"
        arrays = {name.removeprefix(prefix): array for name, array in load(file).items()}
        store(file, arrays)
    expected |= ids_of(folder, pairs=pairs)
    arrays = {name: array_of(value) for name, value in expected.items()}
    np.savez_compressed(folder / "expected.npz", allow_pickle=False, **arrays)


def load(file: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(file)


def store(file: Path, arrays: dict[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    save_file({name: array.contiguous() for name, array in arrays.items()}, file, metadata={"format": "pt"})


def array_of(value: Any) -> np.ndarray:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def rows(lengths: tuple[int, ...], vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids and segments [rows, longest], padding at the end."""
    segments = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return torch.randint(3, vocabulary, segments.shape) * segments, segments


def ids_of(folder: Path, texts: tuple[str, ...] = TEXTS, pairs: bool = False) -> dict[str, Any]:
    """Ids of texts by transformers' tokenizer of a folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found: dict[str, Any] = {f"text_{i}": text for i, text in enumerate(texts)}
    found |= {f"ids_{i}": tokenizer(text)["input_ids"] for i, text in enumerate(texts)}
    if pairs:
        both = tokenizer(*PAIR)
        found |= {"first_0": PAIR[0], "second_0": PAIR[1], "pair_0": both["input_ids"]}
        found |= {"pair_types_0": both["token_type_ids"]}
    return found


def byte_level(folder: Path) -> int:
    """GPT-2's vocab.json and merges.txt; gives the number of ids."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(TRAINING, trainers.BpeTrainer(vocab_size=279, initial_alphabet=alphabet))
    return save_bpe(made, folder, {"<|endoftext|>": 279}, {"model_max_length": 16})


def save_bpe(made: tokenizers.Tokenizer, folder: Path, special: dict[str, int], config: dict[str, Any]) -> int:
    content = json.loads(made.to_str())["model"]
    vocabulary = content["vocab"] | special
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(vocabulary)


def lowered_bpe(folder: Path) -> int:
    """GPT-1's vocab.json and merges.txt, whose words end with </w>."""
    made = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>"], end_of_word_suffix="</w>")
    made.train_from_iterator(TRAINING[:2] + TRAINING[4:], trainer)
    return save_bpe(made, folder, {}, {"tokenizer_class": "OpenAIGPTTokenizer"})


def wordpiece(folder: Path, *, lowercase: bool) -> int:
    """BERT's vocab.txt."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(TRAINING, trainers.WordPieceTrainer(vocab_size=110, special_tokens=BERT))
    pieces = sorted(made.get_vocab().items(), key=lambda item: item[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in pieces))
    config = {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(pieces)


def unigram(folder: Path) -> int:
    """T5's tokenizer.json: 20 sentinels after the pieces."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="<unk>")
    made.train_from_iterator(TRAINING, trainer)
    pieces = [tuple(piece) for piece in json.loads(made.to_str())["model"]["vocab"]]
    pieces += [(f"<extra_id_{index}>", 0.0) for index in range(19, -1, -1)]
    tokenizer = transformers.T5Tokenizer(vocab=pieces, extra_ids=20)
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def gpt2(folder: Path) -> None:
    vocabulary = byte_level(folder)
    sizes: dict[str, Any] = {"n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "n_inner": 20}
    config = transformers.GPT2Config(vocab_size=vocabulary, bos_token_id=279, eos_token_id=279, **sizes)
    model = transformers.GPT2LMHeadModel(config).eval()
    randomise(model)
    decoder(model, folder, vocabulary, prefix="transformer.")  # as the published files are


def gpt2_torch(folder: Path) -> None:
    """The arrays of `gpt2` alone, in a file of torch with the masks that the first published files hold."""
    arrays = load(folder.parent / "gpt2" / "model.safetensors")
    for layer in range(2):
        arrays[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 16, 16, dtype=torch.uint8).tril()
        arrays[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(arrays, folder / "pytorch_model.bin")


def gpt1(folder: Path) -> None:
    vocabulary = lowered_bpe(folder)
    config = transformers.OpenAIGPTConfig(vocab_size=vocabulary, n_embd=12, n_head=3, n_layer=2, n_positions=16)
    model = transformers.OpenAIGPTLMHeadModel(config).eval()
    randomise(model)
    decoder(model, folder, vocabulary)


def decoder(model: Any, folder: Path, vocabulary: int, prefix: str = "") -> None:
    tokens, segments = rows((9, 6), vocabulary)
    tokens[0] = model.generate(tokens[:1, :4], max_new_tokens=5, do_sample=False, eos_token_id=vocabulary)[0]
    expected: dict[str, Any] = {"tokens": tokens, "tokens_segments": segments, "greedy": 5}
    expected["logits"] = model(tokens, attention_mask=segments).logits
    save(model, folder, expected, prefix=prefix)


def nanogpt(folder: Path) -> None:
    """nanoGPT's names and layouts: kernels [out, in], no biases, exact GELU, a vocabulary rounded up; compiled."""
    width, heads, depth, places, vocabulary, tokens = 12, 3, 2, 16, 288, rows((9, 6), 280)[0]
    byte_level(folder)
    shapes = {"transformer.wte": (vocabulary, width), "transformer.wpe": (places, width), "transformer.ln_f": (width,)}
    for layer in range(depth):
        block = f"transformer.h.{layer}"
        shapes |= {f"{block}.ln_1": (width,), f"{block}.attn.c_attn": (3 * width, width)}
        shapes |= {f"{block}.attn.c_proj": (width, width), f"{block}.ln_2": (width,)}
        shapes |= {f"{block}.mlp.c_fc": (4 * width, width), f"{block}.mlp.c_proj": (width, 4 * width)}
    w = {name: 0.2 * torch.randn(shape) + float("ln_" in name) for name, shape in shapes.items()}
    x = w["transformer.wte"][tokens] + w["transformer.wpe"][: tokens.shape[1]]
    for layer in range(depth):
        block = f"transformer.h.{layer}"
        q, k, v = F.linear(F.layer_norm(x, (width,), w[f"{block}.ln_1"]), w[f"{block}.attn.c_attn"]).chunk(3, -1)
        cut = [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (q, k, v)]
        seen = F.scaled_dot_product_attention(*cut, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.linear(seen, w[f"{block}.attn.c_proj"])
        hidden = F.gelu(F.linear(F.layer_norm(x, (width,), w[f"{block}.ln_2"]), w[f"{block}.mlp.c_fc"]))
        x = x + F.linear(hidden, w[f"{block}.mlp.c_proj"])
    logits = F.linear(F.layer_norm(x, (width,), w["transformer.ln_f"]), w["transformer.wte"])
    names = {f"_orig_mod.{name}.weight": value for name, value in w.items()}
    names["_orig_mod.lm_head.weight"] = w["transformer.wte"]
    settings = {"n_layer": depth, "n_head": heads, "n_embd": width, "block_size": places, "bias": False}
    saved = {
        "model": names,
        "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]},
        "model_args": {**settings, "vocab_size": vocabulary, "dropout": 0.0},
        "iter_num": 3,
        "best_val_loss": torch.tensor(2.5),
        "config": {"dataset": "any"},
    }
    torch.save(saved, folder / "ckpt.pt")
    np.savez_compressed(folder / "expected.npz", tokens=tokens, tokens_segments=np.sign(tokens), logits=logits)


T5_SIZES: dict[str, Any] = {
    "d_model": 10,
    "d_ff": 14,
    "d_kv": 4,  # heads whose width is not the tokens'
    "num_heads": 3,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "relative_attention_num_buckets": 8,  # so that texts of nine tokens reach every kind of bucket
    "relative_attention_max_distance": 7,
    "decoder_start_token_id": 0,
}
V1_1: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def t5(folder: Path) -> None:
    encoder_decoder(transformers.T5ForConditionalGeneration, transformers.T5Config, folder, unigram(folder))


def t5_v1_1(folder: Path) -> None:
    encoder_decoder(transformers.T5ForConditionalGeneration, transformers.T5Config, folder, unigram(folder), **V1_1)


def mt5(folder: Path) -> None:
    """With a start that isn't 0, and a tied head whose input isn't scaled."""
    more: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "decoder_start_token_id": 5}
    classes = transformers.MT5ForConditionalGeneration, transformers.MT5Config
    encoder_decoder(*classes, folder, unigram(folder), **more)


def byt5(folder: Path) -> None:
    transformers.ByT5Tokenizer().save_pretrained(folder)
    (folder / "added_tokens.json").unlink(missing_ok=True)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    kept = {name: config[name] for name in ("tokenizer_class", "extra_ids", "eos_token", "pad_token", "unk_token")}
    (folder / "tokenizer_config.json").write_text(json.dumps(kept | {"extra_ids": 125}))
    sizes = {"d_model": 8, "d_ff": 10, "num_layers": 1}
    encoder_decoder(transformers.T5ForConditionalGeneration, transformers.T5Config, folder, 384, **V1_1, **sizes)


def encoder_decoder(kind: Any, config: Any, folder: Path, vocabulary: int, **more: Any) -> None:
    model = kind(config(**{**T5_SIZES, "vocab_size": vocabulary, **more})).eval()
    if more.get("tie_word_embeddings") is False:  # the head of its own that a checkpoint of version 1.1 brings
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    randomise(model)
    source, seen = rows((9, 6), vocabulary)
    tokens, segments = rows((7, 7), vocabulary)
    tokens[1, 0] = model.config.decoder_start_token_id
    tokens[0] = model.generate(source[:1], max_new_tokens=6, do_sample=False, eos_token_id=vocabulary)[0]
    logits = model(input_ids=source, attention_mask=seen, decoder_input_ids=tokens).logits
    expected = {"source": source, "source_segments": seen, "tokens": tokens, "tokens_segments": segments}
    save(model, folder, {**expected, "logits": logits, "greedy": 6})


BERT_SIZES: dict[str, Any] = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 14,
    "max_position_embeddings": 16,
    "type_vocab_size": 3,
}
LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}, "label2id": {"no": 0, "perhaps": 1, "yes": 2}}


def bert(folder: Path) -> None:
    encoder(transformers.BertForPreTraining, folder, lowercase=True)


def bert_masked(folder: Path) -> None:
    encoder(transformers.BertForMaskedLM, folder, lowercase=False, hidden_act="gelu_new")


def bert_classes(folder: Path) -> None:
    encoder(transformers.BertForSequenceClassification, folder, lowercase=True, **LABELS)


def bert_number(folder: Path) -> None:
    encoder(transformers.BertForSequenceClassification, folder, lowercase=True, num_labels=1)


def bert_tags(folder: Path) -> None:
    encoder(transformers.BertForTokenClassification, folder, lowercase=False, **LABELS)


def sentences(folder: Path) -> None:
    """A folder of sentence-transformers: the mean of the tokens, of length 1."""
    encoder(transformers.BertModel, folder, lowercase=True)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    modes = {f"pooling_mode_{mode}": mode == "mean_tokens" for mode in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 12, **modes}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12, "do_lower_case": False}))


def encoder(kind: Any, folder: Path, *, lowercase: bool, **more: Any) -> None:
    vocabulary = wordpiece(folder, lowercase=lowercase)
    model = kind(transformers.BertConfig(vocab_size=vocabulary, **BERT_SIZES, **more)).eval()
    randomise(model)
    tokens, segments = rows((9, 6), vocabulary)
    types = torch.randint(0, 3, tokens.shape) * segments
    output = model(tokens, attention_mask=segments, token_type_ids=types)
    expected: dict[str, Any] = {"tokens": tokens, "tokens_segments": segments, "tokens_types": types}
    if kind is transformers.BertModel:
        hidden = output.last_hidden_state
        mean = (hidden * segments[..., None]).sum(1) / segments.sum(1, keepdim=True)
        expected |= {"hidden": hidden, "pooled": output.pooler_output, "embedding": F.normalize(mean)}
    elif kind is transformers.BertForPreTraining:
        expected |= {"logits": output.prediction_logits, "follows": output.seq_relationship_logits}
    else:
        expected["logits"] = output.logits
    save(model, folder, expected, pairs=True)


GOLDENS = {
    "gpt2": gpt2,
    "gpt1": gpt1,
    "nanogpt": nanogpt,
    "t5": t5,
    "t5_v1_1": t5_v1_1,
    "mt5": mt5,
    "byt5": byt5,
    "bert": bert,
    "bert_masked": bert_masked,
    "bert_classes": bert_classes,
    "bert_number": bert_number,
    "bert_tags": bert_tags,
    "sentences": sentences,
    "gpt2_torch": gpt2_torch,
}


def main() -> None:
    folder = Path(sys.argv[1])
    for index, (name, make) in enumerate(GOLDENS.items()):
        torch.manual_seed(index)
        make(folder / name)
        sizes = sum(file.stat().st_size for file in (folder / name).rglob("*") if file.is_file())
        print(f"{name}: {sizes:,} bytes")


if __name__ == "__main__":
    main()
