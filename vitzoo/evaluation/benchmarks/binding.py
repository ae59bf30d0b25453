"""A benchmark bound to a checkpoint: its evaluator, its data and its inputs put together."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.sources.fields import SETTINGS
from vitzoo.data.text.row_kinds import read_by
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.evaluation.benchmarks.benchmark import Benchmark
from vitzoo.evaluation.checkpoint import Ready
from vitzoo.evaluation.language_modelling import PerplexityEvaluator
from vitzoo.evaluation.run import Evaluation
from vitzoo.evaluation.settings import Evaluator, TextEvaluator
from vitzoo.models.text import begins_with_task, kind_of
from vitzoo.registry import find
from vitzoo.schema import build, patch
from vitzoo.strict_json import JSON

SOURCE_TOKENS = 512
"""Of an encoder-decoder's source, at least: T5 was trained on so many."""
PLAIN: Mapping[str, Any] = {**dict.fromkeys((*SETTINGS, "image_field", "template"), ""), "regression": False}
"""Settings that say which fields are read, as they are by default."""
IMAGENET_CLASSES = 1000
IMAGENET_NAMES = {0: "tench", 1: "goldfish", 207: "golden retriever", 281: "tabby", 340: "zebra", 970: "alp"}
"""What the classes of these numbers are called, in the usual order, that of their WordNet ids."""


def bound(row: Benchmark, ready: Ready, shots: int | None, data: Mapping[str, JSON]) -> tuple[Evaluation, list[str]]:
    """The evaluation, and what is to be said of it.

    Args:
        row: the benchmark.
        ready: the checkpoint.
        shots: solved examples before each question, where it asks any.
        data: the user's own dataset and split, for a benchmark that has none.

    Raises:
        UserError: the data aren't there, or the checkpoint can't be measured by it.
    """
    row = with_data(row, data)
    images = ready.inputs.find(ImageProcessor) is not None
    if images != (row.takes == "images"):
        raise UserError("benchmark", row.name, f"is of {row.takes}, and this checkpoint reads {_reads(images)}")
    if images:
        return image_evaluation(row, ready)
    return text_evaluation(row, ready, shots), []


def with_data(row: Benchmark, data: Mapping[str, JSON]) -> Benchmark:
    """The benchmark with a dataset, the user's where it has none of its own."""
    if row.dataset:
        return row
    if "name" not in data:
        raise UserError("data.name", None, "must name your text: --config.data.name=text:FILE")
    return dataclasses.replace(row, dataset=str(data["name"]), split=str(data.get("split", row.split)))


def image_evaluation(row: Benchmark, ready: Ready) -> tuple[Evaluation, list[str]]:
    """Of images: the preprocessing is the checkpoint's but for what the benchmark says."""
    images = ready.inputs.images
    preprocessing = patch(images.preprocessing, dict(row.preprocessing), "preprocessing")
    inputs = ready.inputs.replace(images, dataclasses.replace(images, preprocessing=preprocessing))
    learns = {"train_split": row.train_split} if row.train_split else {}
    part = find("evaluator", row.evaluator)
    learns = learns if hasattr(part, "train_split") else {}
    evaluator = made(row.evaluator, row, row.settings, learns)
    classes, notes = ready.info.classes, []
    if row.imagenet and evaluator.CLASSES:
        own = {**PLAIN, **row.settings.get("data", {}), "name": row.dataset, "split": row.split}
        data = patch(ready.experiment.data, own)
        names = inputs.source(data).info.classes or ()
        found, note = as_wordnet(classes, getattr(ready.config, "num_classes", 0) or 0, names)
        classes, notes = None if found is None else tuple(found), [note] if note else []
    return evaluation(evaluator, inputs, ready, classes), notes


def text_evaluation(row: Benchmark, ready: Ready, shots: int | None) -> Evaluation:
    """Of text: by a model's head where it is an encoder, else by what it writes or gives a probability."""
    kind, processor = kind_of(ready.config), ready.inputs.text

    def with_text(text: Text) -> Inputs:
        return ready.inputs.replace(processor, dataclasses.replace(processor, text=text))

    if kind == "encoder":
        if row.encoder is None:
            raise UserError("benchmark", row.name, "needs a model that writes: a gpt, t5 or transformer")
        evaluator = made(row.encoder.evaluator, row, {"data": row.encoder.fields}, {}, row.encoder.dataset)
        text = dataclasses.replace(processor.text, prefix="")
        return evaluation(evaluator, with_text(text), ready, ready.info.classes)
    changes: dict[str, Any] = dict(row.text)
    if kind == "encoder_decoder":
        changes["source_length"] = max(processor.text.source_length, SOURCE_TOKENS)
    if begins_with_task(ready.config):
        changes["prefix"] = row.prefix
    text = patch(processor.text, changes, "text")
    own = row.decoder if kind == "decoder" else {}
    evaluator = made(row.evaluator, row, {**row.settings, **own}, {})
    assert isinstance(evaluator, TextEvaluator)
    if evaluator.rows not in read_by(kind):
        raise UserError("benchmark", row.name, f"measures rows of {evaluator.rows}, which this model doesn't read")
    if isinstance(evaluator, PerplexityEvaluator) and kind == "decoder":
        evaluator = dataclasses.replace(evaluator, stride=max(1, text.length // 2))
    if shots is not None and hasattr(evaluator, "shots"):
        evaluator = patch(evaluator, {"shots": shots})
    return evaluation(evaluator, with_text(text), ready, ready.info.classes)


def made(
    name: str, row: Benchmark, settings: Mapping[str, Any], more: Mapping[str, Any], dataset: str | None = None
) -> Evaluator:
    """An evaluator on the benchmark's data, whose fields aren't those of the run's own."""
    data = {**PLAIN, **settings.get("data", {}), "name": dataset or row.dataset}
    return build(find("evaluator", name), {"split": row.split, **settings, **more, "data": data})


def evaluation(evaluator: Evaluator, inputs: Inputs, ready: Ready, classes: tuple[str, ...] | None) -> Evaluation:
    """The evaluator bound to its data and to the checkpoint's model."""
    return Evaluation(
        evaluator,
        ready.graph,
        inputs=inputs,
        config=ready.config,
        data=ready.experiment.data,
        classes=classes,
        mesh=ready.mesh,
        objective=ready.experiment.objective,
    )


def _reads(images: bool) -> str:
    return "images" if images else "text"


def as_wordnet(model: Sequence[str] | None, outputs: int, data: Sequence[str]) -> tuple[Sequence[str] | None, str]:
    """The names of a model's classes as the data call them, and a line that says what was assumed, if anything.

    A model with 1,000 outputs that have no names, or other names than WordNet ids, has ImageNet's classes in the usual
    order; of names some that are known are looked at.

    Args:
        model: the names of its classes, if known.
        outputs: how many there are.
        data: the dataset's names: WordNet ids, all 1,000.

    Raises:
        UserError: the names are in another order, or of other classes.
    """
    if model is not None and set(data) & set(model):
        return model, ""
    if outputs != IMAGENET_CLASSES or len(data) != IMAGENET_CLASSES:
        return model, ""
    if model is None:
        return data, "the model's 1,000 classes have no names and are taken as ImageNet's, in the order of WordNet ids"
    wrong = [number for number, name in IMAGENET_NAMES.items() if name not in model[number].lower().replace("_", " ")]
    if wrong:
        number, name = wrong[0], IMAGENET_NAMES[wrong[0]]
        message = f"in ImageNet's order class {number} is {name}, so these can't be matched with WordNet ids"
        raise UserError("classes", model[number], message)
    return data, "the model's 1,000 names are ImageNet's, in the order of WordNet ids"
