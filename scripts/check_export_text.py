"""Text models of vitzoo's, converted to the layout of transformers, are there the same models.

Two environments:

    python scripts/check_export_text.py write FOLDER                  # vitzoo: a small model of each kind, converted
    /tmp/peer/bin/python scripts/check_export_text.py check FOLDER    # torch and transformers (and sentencepiece)

`check` loads each strictly (no array missing, left over or of another shape) and prints the largest difference of the
logits; greedy continuations, and the ids of texts with their special tokens, must be the same.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

TEXTS = [
    "The quick brown fox isn't here.",
    "  two  spaces, 3 numbers ",
    "Crème brûlée: 4,50 € in 東京 ☃",
    "an END [of] a\nline",
]
GPT = {"width": 48, "depth": 3, "num_heads": 3, "context_length": 40}
GATED = {"gated_mlp": True, "activation": "gelu_tanh", "tied_head": False}
T5 = {"width": 48, "encoder_depth": 3, "decoder_depth": 2, "num_heads": 3, "head_dim": 8, "mlp_dim": 64}
BERT = {"width": 48, "depth": 3, "num_heads": 3, "mlp_dim": 64, "context_length": 40}
CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "gpt2": ("gpt", {**GPT, "vocabulary_multiple": 64}, "bpe", ""),
    "gpt2-own-head": ("gpt", {**GPT, "tied_head": False, "activation": "gelu_exact"}, "characters", ""),
    "gpt2-bytes": ("gpt", {**GPT, "dropout": 0.1}, "bytes", ""),
    "gpt1": ("gpt", {**GPT, "pre_norm": False, "mlp_dim": 192}, "bpe", "openai-gpt"),
    "t5": ("t5", T5, "unigram", ""),
    "t5-gated": ("t5", {**T5, **GATED, "start_id": 2}, "unigram", ""),
    "t5-divided": ("t5", {**T5, "scale_attention": True}, "bpe", ""),
    "t5-unscaled": ("t5", {**T5, "scale_head": False}, "wordpiece", ""),
    "byt5": ("t5", {**T5, **GATED, "vocabulary_size": 384}, "byt5", ""),
    "bert": ("bert", BERT, "wordpiece", ""),
    "bert-masked": ("bert", {**BERT, "pooler": False, "activation": "gelu_tanh"}, "wordpiece", ""),
    "bert-classes": ("bert", {**BERT, "head": "classes", "num_classes": 3}, "wordpiece", ""),
    "bert-number": ("bert", {**BERT, "head": "number"}, "bpe", ""),
    "bert-tags": ("bert", {**BERT, "head": "token_classes", "num_classes": 3}, "wordpiece", ""),
    "bert-sentences": ("bert", {**BERT, "head": "none", "unit_embedding": True}, "wordpiece", ""),
}
"""Model, what differs in its Config, kind of tokenizer, format."""
OBJECTIVES = {"gpt": "causal_lm", "t5": "seq2seq", "bert": "masked_lm"}


def write(folder: Path) -> None:
    """Every case as a checkpoint of vitzoo's, converted, with what it computes."""
    for number, (name, (model, fields, kind, form)) in enumerate(CASES.items()):
        with tempfile.TemporaryDirectory() as scratch:
            expected = _converted(folder / name, Path(scratch), number, model, fields, kind, form)
        np.savez(folder / name / "expected.npz", **expected)
        print(f"{name}: {', '.join(sorted(file.name for file in (folder / name).iterdir()))}")


def _converted(target: Path, scratch: Path, seed: int, model: str, fields: dict, kind: str, form: str) -> dict:
    import jax
    import jax.numpy as jnp

    from vitzoo.checkpoints.metadata import describe
    from vitzoo.checkpoints.store import Store
    from vitzoo.config.assembly import assemble
    from vitzoo.config.model import ModelChoice
    from vitzoo.nn import paths, state
    from vitzoo.schema import to_json
    from vitzoo.weights.convert import convert

    tokenizer = _tokenizer(kind)
    made = assemble(ModelChoice(model, "", {"vocabulary_size": tokenizer.vocabulary_size, **fields}))
    config: Any = made.config
    graph, shapes = made.abstract
    draws = np.random.default_rng(seed)
    leaves = {path: _random(draws, path, leaf.shape) for path, leaf in paths.flatten(shapes).items()}
    params = jax.tree.map(jnp.asarray, paths.unflatten(leaves))
    known = tokenizer.save(scratch / "assets")
    classes = ["no", "perhaps", "yes"] if fields.get("num_classes") else None
    description = describe(
        version="0",
        model={"name": model, "variant": "", **to_json(config)},
        objective={"name": OBJECTIVES[model]},
        classes=classes,
        data={"name": "any", "split": "train", "fingerprint": ""},
        step=1,
        examples=1,
        inputs={"tokens": {"kind": "text", "length": 40, "tokenizer": known}},
    )
    store = Store(scratch / "run" / "checkpoints")
    store.save(1, {"params": params, "step": 1, "updates": 1, "skipped": 0}, description, {}, scratch / "assets")
    store.close()
    convert(scratch / "run", target, form=form)
    texts = [tokenizer.encode(text).tolist() for text in TEXTS]
    expected = {"texts": json.dumps([_marked(tokenizer, model, ids) for ids in texts])}
    return expected | _computed(state.merge(graph, params), draws, config.vocabulary_size)


def _marked(tokenizer: Any, model: str, ids: list[int]) -> list[int]:
    """With the special tokens that a model's input has."""
    from vitzoo.data.text.packing import Layout

    if model == "bert":
        return Layout(tokenizer, 10_000)([np.array(ids, np.int32)])[0].tolist()
    return [*ids, tokenizer.end_id] if model == "t5" else ids


def _tokenizer(kind: str) -> Any:
    from vitzoo.data.text.settings import Tokenizer
    from vitzoo.data.text.tokenizers.characters import ByteTokenizer
    from vitzoo.data.text.tokenizers.open import open_tokenizer

    if kind == "byt5":
        return ByteTokenizer.of_byt5()
    masking = kind in ("bpe", "characters")
    return open_tokenizer(Tokenizer(kind=kind, vocabulary_size=300, masking=masking, sentinels=8), TEXTS * 2)


def _random(draws: np.random.Generator, path: str, shape: tuple[int, ...]) -> np.ndarray:
    return (0.15 * draws.normal(size=shape) + path.endswith("/scale")).astype(np.float32)


def _computed(model: Any, draws: np.random.Generator, vocabulary: int) -> dict[str, Any]:
    """Inputs and what the model makes of them."""
    import jax.numpy as jnp

    segments = (np.arange(14) < np.array([14, 9])[:, None]).astype(np.int32)
    tokens = draws.integers(3, min(vocabulary, 250), segments.shape).astype(np.int32) * segments
    found: dict[str, Any] = {"tokens": tokens, "tokens_segments": segments}
    given = {name: jnp.asarray(value) for name, value in found.items()}
    if hasattr(model, "encode") and hasattr(model, "extend"):
        targets = jnp.asarray(tokens[::-1, :7])
        logits = model(given["tokens"], targets, source_segments=given["tokens_segments"])
        found |= {"targets": targets, "logits": logits}
    elif hasattr(model, "extend"):
        found["logits"] = model(given["tokens"], tokens_segments=given["tokens_segments"])
    else:
        found["logits"] = model(given["tokens"], tokens_segments=given["tokens_segments"])
        found["embedding"] = model.sentence_embedding(
            model.encode(given["tokens"], tokens_segments=given["tokens_segments"]), given["tokens_segments"]
        )
    if hasattr(model, "extend"):
        # an id that is never written, so that nothing ends
        found["greedy"] = model.generate(given["tokens"][:1], max_new_tokens=12, end_id=None, temperature=0.0).ids[0]
    return {name: np.asarray(value) for name, value in found.items()}


def check(folder: Path) -> None:
    """Loads and compares every case."""
    for name in CASES:
        with np.load(folder / name / "expected.npz") as file:
            _check(folder / name, {key: file[key] for key in file.files})


def _check(folder: Path, expected: dict[str, np.ndarray]) -> None:
    import torch
    import transformers as hf

    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    model, info = getattr(hf, architecture).from_pretrained(folder, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, f"{folder.name}: {wrong}"
    given = {name: torch.from_numpy(expected[name]).long() for name in ("tokens", "tokens_segments")}
    more = {"decoder_input_ids": torch.from_numpy(expected["targets"]).long()} if "targets" in expected else {}
    with torch.no_grad():
        output = model.eval()(given["tokens"], attention_mask=given["tokens_segments"], **more)
    logits = {"BertForPreTraining": "prediction_logits", "BertModel": "last_hidden_state"}.get(architecture, "logits")
    theirs = getattr(output, logits).numpy().reshape(expected["logits"].shape)
    per_token = theirs.ndim == 3 and "targets" not in expected
    real = expected["tokens_segments"] > 0 if per_token else np.ones(len(theirs), bool)
    difference = np.abs(theirs - expected["logits"])[real].max()
    said = [f"largest difference {difference:.2e} of {np.abs(theirs).max():.2f}"]
    if "greedy" in expected:
        new = len(expected["greedy"])
        written = model.generate(
            given["tokens"][:1], max_new_tokens=new, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert written[0, -new:].tolist() == expected["greedy"].tolist(), f"{folder.name}: other greedy continuation"
        said.append(f"{new} greedy ids the same")
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    for text, ids in zip(TEXTS, json.loads(str(expected["texts"])), strict=True):
        assert tokenizer(text)["input_ids"] == ids, (folder.name, text, tokenizer(text)["input_ids"], ids)
    said.append(f"ids of {len(TEXTS)} texts the same")
    assert difference < 1e-5, f"{folder.name}: {difference}"
    print(f"{folder.name:16}{architecture:32}{'; '.join(said)}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    (write if sys.argv[1] == "write" else check)(Path(sys.argv[2]))
