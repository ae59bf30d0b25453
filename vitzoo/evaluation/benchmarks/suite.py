"""The benchmarks of images and of text: for each the data, the evaluator and the published score."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.data.datasets import tasks, vtab
from vitzoo.errors import UserError
from vitzoo.evaluation.benchmarks.benchmark import Benchmark, Encoder, Expected

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
    row = vtab.TASKS[task]
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


REAL = {"data": {"label_field": "real_label"}}
PRESENT = {"present_classes": True}

IMAGES: tuple[Benchmark, ...] = (
    _imagenet(
        "imagenet", "imagenet2012", "validation", 86.00, "results-imagenet.csv", train_split="train", by_hand=ACCOUNT
    ),
    _imagenet(
        "imagenet-real", "imagenet2012_real", "validation", 89.97, "results-imagenet-real.csv",
        evaluator="real_accuracy", settings=REAL, by_hand=ACCOUNT,
    ),
    _imagenet("imagenet-v2", "imagenet_v2", "test", 76.48, "results-imagenetv2-matched-frequency.csv"),
    _imagenet("imagenet-a", "imagenet_a", "test", 63.69, "results-imagenet-a.csv", settings=PRESENT),
    _imagenet("imagenet-r", "imagenet_r", "test", 60.18, "results-imagenet-r.csv", settings=PRESENT),
    _imagenet("imagenet-sketch", "imagenet_sketch", "test", 45.89, "results-sketch.csv"),
    _transfer("cifar10", "cifar10", "train", 99.50),
    _transfer("cifar100", "cifar100", "train", 94.55),
    _transfer("pets", "oxford_iiit_pet", "train", 97.56),
    _transfer("flowers", "oxford_flowers102", "train", 99.68),
    *map(_vtab, vtab.TASKS),
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


GPT2 = "GPT-2 124M (openai-community/gpt2)"
PAPER = "Language Models are Unsupervised Multitask Learners, table 3"
T5_SMALL = Expected(82.4, "T5-small, fine-tuned", "https://arxiv.org/abs/1910.10683, table 14")
NVIDIA = Expected(78.33, "T5 v1.1-small of NVIDIA, fine-tuned", "NVIDIA JAX-Toolbox, rosetta/projects/t5x")
BIG = "https://arxiv.org/abs/1706.03762, table 2"
WIKI = "wikitext-103-raw-v1, into the folder wikitext-103-raw of a data folder"
WRITE: Mapping[str, Any] = {"answer_format": " {answer}"}
BEAMS: Mapping[str, Any] = {
    "metrics": ("bleu",), "num_beams": 4, "length_penalty": 0.6, "length_normalisation": "gnmt", "max_new_tokens": 200
}  # fmt: skip


def _pair(first: str, second: str) -> dict[str, str]:
    return {"first_field": first, "second_field": second}


def _choice(task: str, fields: Mapping[str, str] | None, metric: str = "accuracy", *more: str, **other) -> Benchmark:
    """A task with classes: a model that writes is asked which of their names follows best."""
    name = task.replace("super_glue", "superglue")
    encoder = None if fields is None else Encoder("classification", tasks.TASKS[task].dataset, fields)
    return Benchmark(
        takes="text",
        dataset=f"tasks/{task}",
        evaluator="multiple_choice",
        decoder=WRITE,
        metric=metric,
        more=more,
        encoder=encoder,
        group=(name.partition("/")[0], ""),
        **{"name": name, "split": "validation", **other},
    )


def _written(name: str, metric: str, settings: Mapping[str, Any], question: str, **other) -> Benchmark:
    """A task whose answers are written."""
    return Benchmark(
        name=name.replace("super_glue", "superglue"),
        takes="text",
        dataset=f"tasks/{name}",
        evaluator="generation",
        settings=settings,
        decoder={"question_format": question, "answer_format": " {answer}"},
        metric=metric,
        **{"split": "validation", **other},
    )


def _translation(pair: str, target: str, score: Expected | None = None) -> Benchmark:
    prefix = f"translate English to {target}: "
    return _written(
        f"wmt/{pair}", "bleu", BEAMS, "{question} =", split="test", unit="", prefix=prefix, expected=score,
        group=("wmt", ""),
    )  # fmt: skip


EXTRACT = {"metrics": ("exact_match", "squad_f1"), "max_new_tokens": 32}
NUMBER = {"metrics": ("pearson", "spearman"), "max_new_tokens": 8}
SUMMARY = {
    "metrics": ("rouge2", "rouge1", "rougeL", "rougeLsum"),
    "rouge_sentences": "punctuation",
    "max_new_tokens": 128,
}

TEXTS: tuple[Benchmark, ...] = (
    Benchmark(
        name="perplexity", takes="text", dataset="", split="all", evaluator="perplexity", settings={"rows": "windows"},
        metric="perplexity", unit="",
    ),
    Benchmark(
        name="wikitext103", takes="text", dataset="wikitext103", split="test", evaluator="perplexity",
        settings={"rows": "windows"}, metric="word_perplexity", more=("word_perplexity",), unit="", by_hand=WIKI,
        expected=Expected(37.50, GPT2, PAPER),
    ),
    Benchmark(
        name="lambada", takes="text", dataset="tasks/lambada", split="test", evaluator="last_word",
        expected=Expected(45.99, GPT2, PAPER),
    ),
    Benchmark(
        name="hellaswag", takes="text", dataset="tasks/hellaswag", split="validation", evaluator="multiple_choice",
        decoder=WRITE, metric="acc_norm",
        expected=Expected(29.4, GPT2, "karpathy/llm.c, Reproducing GPT-2 (124M)"),
    ),
    _choice("glue/cola", {"text_field": "sentence"}, "matthews_correlation", "matthews_correlation"),
    _choice("glue/sst2", {"text_field": "sentence"}),
    _choice("glue/mrpc", _pair("sentence1", "sentence2"), "f1", "f1"),
    _choice("glue/qqp", _pair("question1", "question2"), "f1", "f1"),
    _written(
        "glue/stsb", "pearson", NUMBER, "{question} score:", group=("glue", ""),
        encoder=Encoder("regression", "glue/stsb", {**_pair("sentence1", "sentence2"), "regression": True}),
    ),
    _choice("glue/mnli", _pair("premise", "hypothesis"), split="validation_matched", expected=T5_SMALL),
    _choice("glue/mnli", _pair("premise", "hypothesis"), name="glue/mnli-mm", split="validation_mismatched"),
    _choice("glue/qnli", _pair("question", "sentence")),
    _choice("glue/rte", _pair("sentence1", "sentence2")),
    _choice("glue/wnli", _pair("sentence1", "sentence2")),
    _choice("super_glue/boolq", _pair("question", "passage")),
    _choice("super_glue/cb", _pair("premise", "hypothesis"), "f1_macro", "f1_macro"),
    _choice("super_glue/copa", None),
    _choice("super_glue/multirc", None, "f1", "f1", "exact_match_by_question"),
    _written("super_glue/record", "squad_f1", EXTRACT, "{question} answer:", group=("superglue", "")),
    _choice("super_glue/rte", _pair("premise", "hypothesis")),
    _choice("super_glue/wic", None),
    _choice("super_glue/wsc", None),
    _written("squad", "exact_match", EXTRACT, "{question} answer:", expected=NVIDIA),
    _written(
        "cnn_dailymail", "rouge2", SUMMARY, "{question}\nTL;DR:", split="test", prefix="summarize: ",
    ),
    _translation("en-de", "German", Expected(28.4, "Transformer (big)", BIG)),
    _translation("en-fr", "French", Expected(41.8, "Transformer (big)", BIG)),
    _translation("en-ro", "Romanian"),
)  # fmt: skip
