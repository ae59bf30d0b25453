"""Checks an accelerator: each model family trained a few steps in bfloat16 beside the CPU in float32, and its speed.

    python scripts/device_check.py [--steps 8] [--output FILE.json]

Needs jax, flax, optax and numpy only. Two tables and, with --output, the same figures as JSON:

agreement  losses of a small model on the same random batches, device in bfloat16, device in float32, CPU in float32
speed      training steps of ViT-S/16 and ViT-B/16 at 224² and of GPT-2 124M at 1,024 tokens in bfloat16: rows/s, and
           MFU against the device's peak, counted as model FLOPs (forward and backward, no recomputation) per second
           over the peak in bfloat16

Exit code 1 when a loss isn't finite, a bfloat16 loss lies more than 2 % from the CPU's, or a float32 one more than
0.5 % (accelerators round float32 products on their own terms).
"""

import argparse
import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from vitzoo.models.bert import BERT
from vitzoo.models.gpt import GPT
from vitzoo.models.t5 import T5
from vitzoo.models.transformer import Transformer
from vitzoo.models.vit import ViT
from vitzoo.nn import state as modules
from vitzoo.nn.execution import Execution
from vitzoo.objectives.classification import Classification
from vitzoo.objectives.language_modelling import CausalLanguageModelling, MaskedLanguageModelling, SequenceToSequence
from vitzoo.optim.build import build
from vitzoo.optim.optimizers import AdamW
from vitzoo.optim.schedules import Constant
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.sharding import put
from vitzoo.planning.jaxprs import count_flops
from vitzoo.planning.topology import peak_flops
from vitzoo.steps import state as states
from vitzoo.steps.compile import compile_train_step
from vitzoo.steps.train import make_train_step

CLASSES, VOCABULARY = 10, 256
TOKENS, SOURCE_TOKENS = 64, 48


@dataclasses.dataclass(frozen=True)
class Family:
    """A small model and what it is trained on.

    Attributes:
        model: the class.
        config: its settings.
        objective: bound to its data.
        batches: (number of rows, number of batches) to batches of host arrays.
        prepare: what happens to a batch on the device.
    """

    model: Any
    config: Any
    objective: Any
    batches: Callable[[int, int], list[dict[str, Any]]]
    prepare: Callable[[Any, Any], dict[str, Any]]


def normalised(batch: Any, key: Any) -> dict[str, Any]:
    """Pixels 0..255 as -1..1: what a run's preprocessing does, without its augmentation."""
    return {**batch, "image": batch["image"].astype("float32") / 127.5 - 1}


def images(size: int, number: int, shape: tuple[int, int] = (32, 32)) -> list[dict[str, Any]]:
    """Random images, each class a shade brighter than the one before, so that there is something to learn."""
    drawn = np.random.default_rng(0)
    made = []
    for _ in range(number):
        label = drawn.integers(0, CLASSES, size).astype(np.int32)
        noise = drawn.integers(0, 128, (size, *shape, 3))
        image = (noise + 12 * label[:, None, None, None]).astype(np.uint8)
        made.append({"image": image, "label": label, "example_weight": np.ones(size, np.float32)})
    return made


def texts(size: int, number: int, kind: str = "decoder") -> list[dict[str, Any]]:
    """Texts in which each token follows from the one before; a target repeats its source's beginning."""
    drawn = np.random.default_rng(0)
    made = []
    for _ in range(number):
        ids = np.empty((size, TOKENS + 1), np.int64)
        ids[:, 0] = drawn.integers(4, VOCABULARY, size)
        for place in range(TOKENS):
            ids[:, place + 1] = 4 + (5 * ids[:, place] + drawn.integers(0, 3, size)) % (VOCABULARY - 4)
        batch = {
            "tokens": ids[:, :-1].astype(np.int32),
            "targets": ids[:, 1:].astype(np.int32),
            "target_weights": np.ones((size, TOKENS), np.float32),
            "tokens_segments": np.ones((size, TOKENS), np.int32),
            "tokens_positions": np.tile(np.arange(TOKENS, dtype=np.int32), (size, 1)),
            "example_weight": np.ones(size, np.float32),
        }
        if kind == "encoder":
            hidden = drawn.random((size, TOKENS)) < 0.15
            batch |= {"targets": batch["tokens"], "tokens": np.where(hidden, 3, batch["tokens"]).astype(np.int32)}
            batch["target_weights"] = hidden.astype(np.float32)
        if kind == "encoder-decoder":
            batch |= {
                "source": batch["targets"][:, :SOURCE_TOKENS],
                "source_segments": batch["tokens_segments"][:, :SOURCE_TOKENS],
                "source_positions": batch["tokens_positions"][:, :SOURCE_TOKENS],
            }
        made.append(batch)
    return made


def families() -> dict[str, Family]:
    """One small model of each family."""
    small: Any = {"vocabulary_size": VOCABULARY, "width": 64, "num_heads": 4, "mlp_dim": 256}
    vit = vit_config("Ti/4", width=64, depth=4, num_heads=4, mlp_dim=256, image_size=32, num_classes=CLASSES)
    t5 = T5.Config(**small, head_dim=16, encoder_depth=2, decoder_depth=2, scale_attention=True)
    pairs, as_it_is = functools.partial(texts, kind="encoder-decoder"), lambda batch, key: dict(batch)
    return {
        "vit": Family(ViT, vit, classification(), images, normalised),
        "gpt": Family(GPT, GPT.Config(**small, depth=4), CausalLanguageModelling(), texts, as_it_is),
        "t5": Family(T5, t5, SequenceToSequence(), pairs, as_it_is),
        "bert": Family(
            BERT, BERT.Config(**small, depth=4, dropout=0.0, attention_dropout=0.0), MaskedLanguageModelling(),
            functools.partial(texts, kind="encoder"), as_it_is,
        ),
        "transformer": Family(
            Transformer, Transformer.Config(**small, depth=2, dropout=0.0), SequenceToSequence(), pairs, as_it_is
        ),
    }  # fmt: skip


def vit_config(variant: str, **changes: Any) -> Any:
    return ViT.Config.from_variant(variant, **changes)


def classification(classes: int = CLASSES) -> Any:
    return Classification().bind(
        SimpleNamespace(multi_label=False, class_counts=None), SimpleNamespace(num_classes=classes)
    )


class Training:
    """A model, its optimizer and its compiled step on some devices."""

    def __init__(self, family: Family, devices: list[jax.Device], dtype: str, remat: str = "none"):
        execution = Execution(dtype=dtype, remat=remat)
        make = lambda rngs: family.model(family.config, rngs=rngs, execution=execution)  # noqa: E731
        self.mesh = make_mesh("auto", devices)
        graph, shapes = modules.abstract(make)
        schedule = Constant().make(1000, 1, 1, 1e-3)
        chain = build(AdamW(weight_decay=0.05, grad_clip=1.0), schedule, shapes)
        self.shapes = states.abstract(shapes, chain)
        places = states.shardings(self.shapes, family.model.SHARDING_RULES, self.mesh)
        self.step = make_train_step(graph, family.objective, chain, schedule, prepare=family.prepare)
        self.compiled = compile_train_step(self.step, self.mesh, places, seed=0)
        self.state = states.create(modules.initialise(make, 0, places["params"]), chain, shardings=places)

    def __call__(self, batch: dict[str, np.ndarray]) -> jax.Array:
        self.state, scalars = self.compiled(self.state, put(batch, self.mesh))
        return scalars["loss"]


def agreement(steps: int) -> tuple[list[dict[str, Any]], bool]:
    """Losses of each family on the device beside the CPU's, and whether all agree."""
    rows, good = [], True
    for name, family in families().items():
        data = family.batches(64, steps)
        runs = {
            "device bfloat16": Training(family, jax.devices(), "bfloat16"),
            "device float32": Training(family, jax.devices(), "float32"),
            "cpu float32": Training(family, jax.devices("cpu")[:1], "float32"),
        }
        losses = {where: [float(run(batch)) for batch in data] for where, run in runs.items()}
        gaps = {
            where: max(abs(a / b - 1) for a, b in zip(values, losses["cpu float32"], strict=True))
            for where, values in losses.items()
        }
        finite = all(np.isfinite(values).all() for values in losses.values())
        good &= finite and gaps["device bfloat16"] < 0.02 and gaps["device float32"] < 0.005
        rows.append({"family": name, "losses": losses, "largest_relative_gap": gaps})
    return rows, good


def speed(name: str, variant: str, batch_size: int, steps: int = 20) -> dict[str, Any]:
    """Rows (images, texts) per second and MFU of training steps, after two that warm up."""
    if name == "vit":
        config, shape = vit_config(variant, image_size=224, num_classes=1000), (224, 224)
        family = Family(ViT, config, classification(1000), functools.partial(images, shape=shape), normalised)
    else:
        config = GPT.Config.from_variant(variant, vocabulary_size=50_304, dropout=0.0, attention_dropout=0.0)
        family = Family(GPT, config, CausalLanguageModelling(), long_texts, lambda batch, key: dict(batch))
    run = Training(family, jax.devices()[:1], "bfloat16")
    batch = put(family.batches(batch_size, 1)[0], run.mesh)
    flops = count_flops(run.step, run.shapes, jax.eval_shape(lambda: batch), 0)
    for _ in range(2):
        run.state, scalars = run.compiled(run.state, batch)
    jax.block_until_ready(scalars)
    start = time.perf_counter()
    for _ in range(steps):
        run.state, scalars = run.compiled(run.state, batch)
    jax.block_until_ready(scalars)
    seconds = (time.perf_counter() - start) / steps
    peak = peak_flops(jax.devices()[0].device_kind)
    used = None if peak is None else flops / seconds / peak
    return {"variant": variant, "batch_size": batch_size, "rows_per_second": batch_size / seconds, "mfu": used}


def long_texts(size: int, number: int, length: int = 1024) -> list[dict[str, Any]]:
    """Random ids, of which only the speed matters."""
    ids = np.random.default_rng(0).integers(0, 50_257, (size, length + 1)).astype(np.int32)
    batch = {"tokens": ids[:, :-1], "targets": ids[:, 1:], "tokens_segments": np.ones((size, length), np.int32)}
    batch["tokens_positions"] = np.tile(np.arange(length, dtype=np.int32), (size, 1))
    batch |= {"target_weights": np.ones((size, length), np.float32), "example_weight": np.ones(size, np.float32)}
    return [batch] * number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--output")
    parser.add_argument(
        "--batch-sizes",
        default="vit:S/16:256,vit:B/16:128,gpt:gpt2-124M:16",
        help="MODEL:VARIANT:BATCH,... for the speed table",
    )
    arguments = parser.parse_args()
    print(jax.__version__, jax.devices())
    compared, good = agreement(arguments.steps)
    for row in compared:
        print(row["family"], "largest relative gap to the CPU's losses:", row["largest_relative_gap"])
        for name, values in row["losses"].items():
            print(f"  {name:16}", " ".join(f"{value:.5f}" for value in values))
    timed = []
    for pair in filter(None, arguments.batch_sizes.split(",")):
        name, variant, size = pair.split(":")
        timed.append(speed(name, variant, int(size)))
        print(timed[-1], flush=True)
    if arguments.output:
        with open(arguments.output, "w") as file:
            json.dump({"jax": jax.__version__, "agreement": compared, "speed": timed}, file, indent=1)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
