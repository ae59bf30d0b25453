"""A small training of every family, alike wherever it is run."""

import json
import random
from pathlib import Path

import vitzoo.config

STEPS = 12
SIZES = {"num_heads": 2, "mlp_dim": 64, "width": 32}
WORDS = ["the", "small", "cat", "sees", "a", "red", "bird", "and", "hears", "two", "dogs", "of"]
FAMILIES = {
    "vit": dict(name="vit", patch_size=2, depth=2, drop_path=0.1, **SIZES),
    "gpt": dict(name="gpt", depth=2, context_length=32, **SIZES),
    "llama": dict(
        name="gpt", depth=2, context_length=32, positions="rotary", norm="rms_norm", gated_mlp=True,
        activation="silu", bias=False, num_kv_heads=1, tied_head=False, **SIZES,
    ),
    "prefix": dict(name="gpt", depth=2, context_length=32, **SIZES),
    "t5": dict(name="t5", variant="v1.1-small", encoder_depth=2, decoder_depth=2, head_dim=16, **SIZES),
    "bert": dict(name="bert", variant="tiny", depth=2, context_length=32, **SIZES),
    "transformer": dict(name="transformer", variant="base", depth=2, **SIZES),
}  # fmt: skip
OBJECTIVES = {"vit": "classification", "prefix": "prefix_lm", "bert": "masked_lm"}
OBJECTIVES |= {"t5": "seq2seq", "transformer": "seq2seq"}


def write_texts(folder: Path) -> Path:
    """Texts, and pairs of a text and its words backwards."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    lines = [draw.choices(WORDS, k=draw.randint(3, 9)) for _ in range(200)]
    (folder / "lines.txt").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    pairs = [{"source": " ".join(line), "target": " ".join(reversed(line))} for line in lines]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    return folder


def config_of(family, texts, mesh="auto", remat="none", scan=True, accumulate=1):
    """12 steps of 16 examples, with dropout, of images or of the texts in a folder."""
    config = vitzoo.config.default()
    config.total_steps = STEPS
    objective = OBJECTIVES.get(family, "causal_lm")
    config.objective = dict(name=objective)
    config.model = dict(dropout=0.1, **FAMILIES[family])
    if family == "t5":
        config.model.vocabulary_size = None
    if family == "vit":
        config.data = dict(name="digits", split="train[:200]", batch_size=16)
        config.augment = dict(mixup=0.2)
    else:
        name = f"jsonl:{texts}/pairs.jsonl" if objective == "seq2seq" else f"text:{texts}/lines.txt"
        config.data = dict(name=name, split="train", batch_size=16, document="line")
        config.inputs.tokens.tokenizer = dict(kind="bytes", masking=family == "bert")
        # 31 tokens divide over no mesh
        config.inputs.tokens = dict(length=31, source_length=31)
    config.mesh, config.remat, config.scan, config.accumulate = mesh, remat, scan, accumulate
    config.optimizer = dict(name="adamw", learning_rate=1e-3, weight_decay=0.1, grad_clip=1.0)
    config.log = dict(every_steps=1, tensorboard=False)
    return config


def evaluators_of(family):
    """What a family is measured by, on numbers of examples that no number of processes divides."""
    if family == "vit":
        part = dict(split="test[:37]", every_steps=STEPS)
        return dict(test=dict(name="classification", **part), learned=dict(name="objective", **part))
    if family == "bert":
        return dict(words=dict(name="masked_lm", split="validation[:19]", every_steps=STEPS))
    told = dict(name="perplexity", split="validation[:19]", every_steps=STEPS)
    if OBJECTIVES.get(family) != "seq2seq":
        return dict(told=told)
    metrics = ("exact_match", "bleu", "chrf")
    written = dict(metrics=metrics, num_beams=2, max_new_tokens=9)
    return dict(told=told, said=dict(name="generation", split="validation[:7]", every_steps=STEPS, **written))
