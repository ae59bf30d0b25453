"""The benchmarks of images."""

import dataclasses

from vitzoo.data.datasets.vtab import TASKS
from vitzoo.errors import UserError
from vitzoo.evaluation.benchmarks.row import Benchmark, Expected

TIMM = "timm, results/"
B16 = "AugReg B/16 at 384 (timm vit_base_patch16_384.augreg_in21k_ft_in1k)"
VIT = "https://arxiv.org/abs/2010.11929, table 2"
JFT = "ViT-H/14 JFT, fine-tuned"
ACCOUNT = "the ILSVRC2012 archives, from image-net.org with an account"
SQUASHED = {"resize": "squash", "crop_fraction": 1.0}


def _imagenet(name: str, dataset: str, split: str, score: float, file: str, **more) -> Benchmark:
    return Benchmark(
        name=name,
        takes="images",
        dataset=dataset,
        split=split,
        imagenet=True,
        expected=Expected(score, B16, TIMM + file),
        **more,
    )


def _transfer(name: str, dataset: str, train: str, score: float) -> Benchmark:
    return Benchmark(
        name=name, takes="images", dataset=dataset, split="test", train_split=train, expected=Expected(score, JFT, VIT)
    )


def _vtab(task: str) -> Benchmark:
    row = TASKS[task]
    return Benchmark(
        name=f"vtab/{task}",
        takes="images",
        dataset=f"vtab/{task}",
        split="test",
        evaluator="linear_probe",
        settings={"held_out": 0.2, "held_out_examples": "last"},
        train_split="train800val200",
        preprocessing=SQUASHED,
        by_hand=row.by_hand,
        group=("vtab", row.group),
    )


REAL = {"data": {"label_key": "real_label"}}
PRESENT = {"present_classes": True}

IMAGES: tuple[Benchmark, ...] = (
    _imagenet(
        "imagenet", "imagenet2012", "validation", 86.00, "results-imagenet.csv", train_split="train", by_hand=ACCOUNT
    ),
    _imagenet(
        "imagenet-real", "imagenet2012_real", "validation", 89.97, "results-imagenet-real.csv",
        evaluator="any_label", settings=REAL, by_hand=ACCOUNT,
    ),
    _imagenet("imagenet-v2", "imagenet_v2", "test", 76.48, "results-imagenetv2-matched-frequency.csv"),
    _imagenet("imagenet-a", "imagenet_a", "test", 63.69, "results-imagenet-a.csv", settings=PRESENT),
    _imagenet("imagenet-r", "imagenet_r", "test", 60.18, "results-imagenet-r.csv", settings=PRESENT),
    _imagenet("imagenet-sketch", "imagenet_sketch", "test", 45.89, "results-sketch.csv"),
    _transfer("cifar10", "cifar10", "train", 99.50),
    _transfer("cifar100", "cifar100", "train", 94.55),
    _transfer("pets", "oxford_iiit_pet", "train", 97.56),
    _transfer("flowers", "oxford_flowers102", "train", 99.68),
    *map(_vtab, TASKS),
)  # fmt: skip

FEATURES = {"knn": "accuracy_k20", "few_shot": "accuracy_10_shot", "linear_probe": "accuracy"}
"""Evaluators that may stand behind a benchmark's name, with the metric that is shown, of features ..."""
PROBABILITIES = {"calibration": "expected_calibration_error"}
"""... and of the head."""
DINO = "facebookresearch/dino, "
KNOWN = {
    ("imagenet", "knn"): Expected(74.5, "DINO ViT-S/16 (dino_vits16)", DINO + "hubconf.py"),
    ("imagenet", "linear_probe"): Expected(74.0, "DINO ViT-S/16, 100 epochs, of four layers", DINO + "README"),
}


def measured_by(benchmark: Benchmark, evaluator: str) -> Benchmark:
    """The benchmark `NAME:EVALUATOR`: the same data, measured otherwise.

    Raises:
        UserError: that can't measure it.
    """
    name = f"{benchmark.name}:{evaluator}"
    metric = {**FEATURES, **PROBABILITIES}.get(evaluator)
    if metric is None or benchmark.takes != "images":
        others = ", ".join((*FEATURES, *PROBABILITIES))
        raise UserError("--benchmark", name, f"behind a benchmark of images may stand {others}")
    if evaluator in FEATURES and not benchmark.train_split:
        raise UserError("--benchmark", name, f"{benchmark.dataset} has no training examples to learn from")
    if evaluator in PROBABILITIES and benchmark.evaluator != "classification":
        raise UserError("--benchmark", name, "calibration is of a head and of one class an image")
    settings = benchmark.settings if benchmark.evaluator == evaluator else {}
    return dataclasses.replace(
        benchmark,
        name=name,
        evaluator=evaluator,
        metric=metric,
        settings=settings,
        unit="" if evaluator in PROBABILITIES else "%",
        expected=KNOWN.get((benchmark.name, evaluator)),
        group=("", ""),
    )
