"""The valid inputs from which a session's cases start: pictures, tables, texts, configs and two tiny runs."""

import csv
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

GOLDENS = Path(__file__).parents[2] / "tests" / "goldens" / "weights"
TINY = ["--config.model.depth=1", "--config.model.width=8", "--config.model.mlp_dim=8", "--config.model.num_heads=2"]
SHORT = [f"--config.{text}" for text in ("total_steps=4", "checkpoint.every_steps=2", "log.every_steps=1")]
RUNS = {
    "vit": ["--config", "quickstart", *TINY, *SHORT, "--config.data.batch_size=8", "--config.schedule.warmup_epochs=0"],
    "gpt": ["--config", "gpt/quickstart", *TINY, *SHORT, "--config.data.name=text:texts/book.txt"],
    "bert": ["--config", "bert/classify:tiny", *TINY, *SHORT, "--config.data.name=jsonl:texts/labelled.jsonl"],
}
EXTRA = {
    "vit": ["--config.evaluate.test.every_epochs=none", "--config.evaluate.test.every_steps=4", "--config.ema=0.5"],
    "gpt": ["--config.schedule.warmup_steps=1", "--config.evaluate.val.max_rows=16", "--config.data.batch_size=4"],
    "bert": [
        "--config.inputs.tokens.tokenizer.kind=bytes",
        "--config.inputs.tokens.length=32",
        "--config.data.batch_size=4",
    ],
}
KINDS = ("cats", "dogs")
ROWS: dict[str, Sequence[dict]] = {
    "labelled": [{"text": f"a text, number {n}", "label": "pos" if n % 2 else "neg", "id": n} for n in range(24)],
    "pairs": [{"source": f"a source {n}", "target": f"the target of {n}"} for n in range(12)],
    "answers": [{"prompt": f"What is {n}?", "completion": f"It is {n}."} for n in range(12)],
    "chats": [
        {"messages": [{"role": "user", "content": f"hello {n}"}, {"role": "assistant", "content": f"hi {n}"}]}
        for n in range(12)
    ],
    "plain": [{"text": f"some words and more words {n}"} for n in range(12)],
    "tagged": [{"tokens": ["a", "b", f"{n}"], "tags": ["O", "B-X", "I-X"]} for n in range(12)],
    "pictured": [
        {"file": f"{kind}/{name}.png", "text": f"{kind} {name}", "label": kind} for kind in KINDS for name in "abgi"
    ],
    "sentences": [{"sentence1": f"a {n}", "sentence2": f"b {n}", "label": n / 10} for n in range(12)],
}
"""Lines of JSON by task."""
CONFIG = """
import vitzoo.config


def get_config(arg="a"):
    config = vitzoo.config.default()
    config.seed = 3
    config.total_epochs = 2
    config.model = dict(name="vit", patch_size=2, width=8, depth=1, mlp_dim=8, num_heads=2, pooling="gap", image_size=8)
    config.objective = dict(name="classification", label_smoothing=0.1)
    config.data = dict(name="digits", split="train[:80%]", batch_size=128)
    config.augment = dict(crop="shift", shift=1, mixup=0.2)
    config.optimizer = dict(name="adamw", learning_rate=2e-3, weight_decay=0.05, grad_clip=1.0, freeze=())
    config.optimizer.learning_rate_rules = (("head/.*", 10.0),)
    config.schedule = dict(name="cosine", warmup_steps=5)
    config.checkpoint = dict(every_epochs=1, keep=2, keep_best="test/accuracy")
    config.evaluate = dict(test=dict(name="classification", split="test", every_epochs=1))
    config.mesh = "data:1"
    config.ema = 0.9
    return config
"""


def make(folder: Path) -> Mapping[str, Callable[[], int]]:
    """Fills the session's folder, but for the runs: what makes each is given back."""
    _pictures(folder / "pictures", random.Random(0))
    texts = folder / "texts"
    texts.mkdir()
    for name, rows in ROWS.items():
        (texts / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (texts / "book.txt").write_text("\n".join(f"Line {n} of a book: {'words ' * (n % 7)}" for n in range(200)))
    (folder / "config.py").write_text(CONFIG)
    return {
        name: partial(command, ["train", *flags, *EXTRA[name], "--workdir", f"runs/{name}"])
        for name, flags in RUNS.items()
    }


def command(arguments: Sequence[str]) -> int:
    """`vitzoo ARGUMENTS`, in this process."""
    from vitzoo.cli import main

    return main(list(arguments))


def _pictures(folder: Path, draw: random.Random) -> None:
    import numpy as np
    from PIL import Image

    modes = {"a": ("RGB", "png"), "b": ("L", "png"), "c": ("RGB", "jpg"), "d": ("P", "gif"), "e": ("RGB", "bmp")}
    modes |= {
        "f": ("RGB", "tif"),
        "g": ("RGBA", "png"),
        "h": ("RGB", "webp"),
        "i": ("I;16", "png"),
        "j": ("CMYK", "tif"),
    }
    rows = [("file", "label", "split")]
    for kind in ("cats", "dogs"):
        (folder / kind).mkdir(parents=True)
        for name, (mode, suffix) in modes.items():
            pixels = np.frombuffer(draw.randbytes(12 * 12 * 3), np.uint8).reshape(12, 12, 3)
            image = Image.fromarray(pixels)
            image = Image.fromarray(pixels[..., 0].astype(np.uint16) * 99) if mode == "I;16" else image.convert(mode)
            image.save(folder / kind / f"{name}.{suffix}")
            rows.append((f"{kind}/{name}.{suffix}", kind, "validation" if name in "aj" else "train"))
    with open(folder / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)


def prepare_process(folder: Path) -> None:
    """Sets the environment of all cases, and imports once what every command needs; no JAX backend is started."""
    os.environ |= {
        **dict.fromkeys(
            ("HOME", "XDG_CACHE_HOME", "TFDS_DATA_DIR", "VITZOO_CACHE", "MPLCONFIGDIR"), str(folder / "home")
        ),
        "TMPDIR": str(folder / "tmp"),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "MPLBACKEND": "agg",
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    }
    for name in ("home", "tmp", "compiled"):
        (folder / name).mkdir()
    tempfile.tempdir = str(folder / "tmp")
    import importlib
    import pkgutil

    import vitzoo
    import vitzoo.cli.entry

    for module in pkgutil.walk_packages(vitzoo.__path__, "vitzoo."):
        if not module.name.startswith("vitzoo.configs") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("matplotlib.pyplot", "sklearn.datasets", "PIL.Image", "tensorboardX", "tokenizers", "sentencepiece"):
        importlib.import_module(name)
    sys.modules["jax"].config.update("jax_compilation_cache_dir", str(folder / "compiled"))
