"""Every config resolves, and its whole training step and evaluators trace at full size: no compilation, no memory."""

import contextlib
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import vitzoo.config
from vitzoo.models.vit import PUBLISHED
from vitzoo.training import setup

sys.path.append(str(Path(__file__).parents[1] / "weights"))  # where run folders are made

GRAY = {"data.name": "config_data:gray28"}
SPLIT_GRAY = GRAY | {"evaluate.val.split": "test"}
FROM, TAUGHT = {"init_from": "CKPT"}, {"objective.teacher": "CKPT"}
FROM_GRAY, HELD_OUT = {"init_from": "GRAY"}, {"data.split": "train[:50]", "evaluate.val.split": "train[50:]"}
PROSE, PAIRS, MAILS, TAGGED = ({"data.name": f"config_data:{name}"} for name in ("prose", "pairs", "mails", "tagged"))
BYTES = {"inputs.tokens.tokenizer.kind": "bytes", "inputs.tokens.tokenizer.file": ""}
TASKS = {"translate": "pairs", "pronounce": "pairs", "spam": "mails"}
TEXT_CASES = [
    ("gpt/quickstart", {}),
    ("gpt/prefix", {}),
    ("gpt/char", PROSE | {"data.batch_size": 16}),
    ("gpt/adder", {}),
    *[(f"gpt/gpt2:{size}", PROSE | BYTES) for size in ("124M", "1558M")],
    *[(f"gpt/gpt3:{size}", PROSE | BYTES) for size in ("125M", "175B")],
    *[(f"t5/c4:{size}", PROSE | BYTES) for size in ("small", "xxl")],
    ("t5/pretrain", {}),
    ("t5/translate", PAIRS),
    (
        "t5/multitask",
        {f"mixture.sources.{task}.name": f"config_data:{data}" for task, data in TASKS.items()}
        | {f"evaluate.{task}.data.name": f"config_data:{data}" for task, data in TASKS.items()},
    ),
    ("transformer/translate", PAIRS),
    *[(f"transformer/wmt14:{arg}", PAIRS) for arg in ("en-de,base", "en-fr,big")],
    *[(f"bert/pretrain:{size}", PROSE) for size in ("quick", "large")],
    ("bert/classify:tiny", MAILS),
    ("bert/tag:tiny", TAGGED),
]
CASES = [
    ("quickstart", {}),
    *TEXT_CASES,
    *[(f"vit/fashion_mnist:{recipe}", GRAY) for recipe in ("short", "long", "student")],
    ("vit/fashion_mnist:distilled", GRAY | {"objective.teacher": "GRAY"}),
    *[
        (f"vit/ablation:{kind}", GRAY | {"data.split": "train"})
        for kind in ("none", "1d", "2d", "relative", "sincos2d", "rotary", "cls", "gap", "map")
    ],
    *[(f"vit/imagenet:{variant}", {}) for variant in ("S/16", "B/32", "L/16", "G/14")],
    ("vit/augreg:i1k,B/16", {}),
    ("vit/augreg:i1k,L/16,strong2,dropout", {}),
    ("vit/augreg:i21k,S/16", SPLIT_GRAY),
    *[(f"vit/original_finetune:{task}", FROM) for task in ("cifar10", "cifar100", "imagenet")],
    *[(f"vit/transfer:{task}", FROM) for task in ("imagenet", "cifar10", "cifar100", "pets", "flowers")],
    *[(f"vit/transfer_small:{task}", FROM_GRAY) for task in ("digits", "mnist_5k")],
    ("vit/transfer_small:fashion_mnist", FROM_GRAY | GRAY | HELD_OUT),
    *[(f"vit/scaling:{variant}", SPLIT_GRAY) for variant in ("g/14", "G/14")],
    *[(f"vit/deit:{variant}", {}) for variant in ("Ti/16", "B/16")],
    ("vit/deit:S/16,distilled", TAUGHT),
    *[(f"vit/deit3:{arg}", {}) for arg in ("S/16", "B/16,800", "L/16,400", "H/14,800")],
    *[(f"vit/deit3:{variant},finetune", FROM) for variant in ("S/16", "B/16")],
    ("vit/linear_probe", FROM),
    ("vit/distill:S/16", TAUGHT),
]


def test_no_config_is_forgotten_here():
    named = {name.partition(":")[0] for name, _ in CASES} | {
        "vit/finetune",
        "gpt/instruct",
        "gpt/finetune",
        "t5/finetune",
        # their words are held by tests/data/text/test_text_template.py
        "t5/tasks",
        "bert/glue",
    }
    assert named == {name for name, _ in vitzoo.config.list_configs()}


CATALOGUE = (
    "vit/imagenet",
    *("vit/augreg:i1k", "vit/original_finetune", "vit/transfer:", "vit/deit", "vit/linear_probe", "vit/distill"),
)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Small models to start from and to learn from: of ImageNet's classes, and of ten for gray images."""
    from made_checkpoint import make_run

    from vitzoo.models.vit import Config

    shape = {"patch_size": 16, "width": 16, "depth": 2, "mlp_dim": 32, "num_heads": 2, "image_size": (32, 32)}
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "colour", Config(**shape, num_classes=1000, channels=3), classes=None)
    gray = Config(**shape | {"patch_size": 7, "image_size": (28, 28)}, num_classes=10, channels=1)
    make_run(folder / "gray", gray, [f"class {number}" for number in range(10)])
    return {"CKPT": str(folder / "colour"), "GRAY": str(folder / "gray")}


@contextlib.contextmanager
def data_for(name):
    """Mock data for the configs that name TFDS's catalogue."""
    if not name.startswith(CATALOGUE):
        yield
        return
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=200):
        yield


def batch_of(rows, size):
    """The shapes of a global batch."""
    row = {key: np.asarray(value) for key, value in rows.padding().items() if key != "id"}
    return {key: jax.ShapeDtypeStruct((size, *value.shape), value.dtype) for key, value in row.items()}


QUICK = {
    "quickstart",
    "gpt/quickstart",
    "transformer/translate",
    "bert/classify:tiny",
    "vit/imagenet:S/16",
    "vit/linear_probe",
}


@pytest.mark.parametrize(
    ("name", "changes"),
    [pytest.param(*case, id=case[0], marks=[pytest.mark.slow] * (case[0] not in QUICK)) for case in CASES],
)
def test_a_config_resolves_and_its_step_and_evaluators_trace(name, changes, checkpoints):
    changes = {setting: checkpoints.get(value, value) for setting, value in changes.items()}
    resolved = vitzoo.config.resolve(name, overrides={"mesh": "data:8", **changes})
    with data_for(name):
        task = setup.prepare(resolved, setup.mesh_of(resolved.experiment))
        task.stream.close()
    size = resolved.experiment.data.batch_size
    batch = batch_of(task.stream.rows, size)
    state, metrics = jax.eval_shape(task.step, task.state, batch, 0)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), task.state
    )
    assert {"loss", "learning_rate", "grad_norm", "skipped"} <= set(metrics)
    if resolved.experiment.total_epochs:
        assert task.total_steps == int(np.ceil(resolved.experiment.total_epochs * task.info.n / len_of(batch)))
    for evaluation in task.evaluations.values():
        outputs = jax.eval_shape(evaluation._step, task.state["params"], batch_of(evaluation.examples, size))
        assert all(rows.shape[0] == size for rows in jax.tree.leaves(outputs))


def len_of(batch):
    return len(batch["example_weight"])


def test_every_published_variant_resolves_on_imagenet():
    for variant in PUBLISHED:
        patch = int(variant.split("/")[1])
        experiment = vitzoo.config.resolve(f"vit/imagenet:{variant}").experiment
        config = experiment.model.config(num_classes=1000)
        assert config.patch_shape == (patch, patch)
        assert config.grid == (224 // patch, 224 // patch)


def test_the_plain_imagenet_recipe_is_the_published_one():
    # Beyer et al. 2022: batch 1024, 90 epochs, learning rate 1e-3, decay 1e-4 not multiplied by it (0.1 here), warm-up
    # of 10,000 steps, RandAugment (2, 10), mixup 0.2, fixed 2-D positions, average pooling, evaluation at 256 -> 224
    experiment = vitzoo.config.resolve("vit/imagenet:S/16").experiment
    assert (experiment.total_epochs, experiment.data.batch_size) == (90, 1024)
    optimizer = experiment.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay, optimizer.grad_clip) == (1e-3, 0.1, 1.0)
    assert experiment.schedule.warmup_steps == 10_000
    augment = experiment.augment
    assert (augment.randaugment_layers, augment.randaugment_magnitude, augment.mixup) == (2, 10, 0.2)
    assert experiment.inputs["image"].crop_fraction == 224 / 256
    config = experiment.model.config(num_classes=1000)
    assert (config.positions, config.pooling, config.pre_logits) == ("sincos2d", "gap", True)
