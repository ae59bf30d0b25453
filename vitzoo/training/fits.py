"""Whether the parts of a training fit each other: model, objective, evaluators, data, and weights to start from."""

from collections.abc import Callable, Collection
from typing import Any

import jax

from vitzoo.config import Resolved
from vitzoo.config.experiment import ModelChoice
from vitzoo.config.inputs import input_kinds
from vitzoo.data.inputs import Inputs
from vitzoo.data.splits import NoSuchSplit
from vitzoo.data.text.rows import EXAMPLES
from vitzoo.errors import UserError
from vitzoo.evaluation.run import Evaluation
from vitzoo.evaluation.settings import of_evaluator
from vitzoo.nn import state as modules
from vitzoo.objectives.base import Objective, WithEmbeddings
from vitzoo.objectives.inputs import EXAMPLE_WEIGHT
from vitzoo.registry import find


def check_fits(choice: ModelChoice, resolved: Resolved) -> None:
    """Refuses a checkpoint's model that the objective or an evaluator can't do with; what the config itself says of
    its model was checked when it was resolved.

    Raises:
        UserError: it can't; where the config names no model, the checkpoint is at fault.
    """
    experiment, source = resolved.experiment, resolved.experiment.init_from
    names = {key: part["name"] for key, part in resolved.values["evaluate"].items()}
    try:
        choice.check_takes(experiment.objective)
        if (kinds := input_kinds(choice.name, experiment.objective)).keys() != experiment.inputs.keys():
            takes = " and ".join(kinds)
            message = f"takes {takes}, and the config has settings of {' and '.join(experiment.inputs)}: set model.name"
            raise UserError("model.name", choice.name, message)
        choice.check_measured(experiment.objective, experiment.evaluate, names)
    except UserError as refusal:
        if refusal.field != "model.name" or experiment.model.name:
            raise
        raise UserError("init_from", source, f"holds {choice.name}, which {refusal.message}") from None


def check_outputs(name: str, graph: Any, shapes: dict, inputs: Inputs, config: Any) -> None:
    """Refuses a user's own model of images that doesn't give each image a number for each class.

    Raises:
        UserError: it gives something else than logits `[batch, classes]`.
    """
    if inputs.row_kind != EXAMPLES:
        return
    call = lambda params, *given: modules.merge(graph, params)(*given, train=False, key=None)  # noqa: E731
    outputs = jax.eval_shape(call, shapes, *inputs.arguments(config))
    if getattr(outputs, "shape", None) != (1, config.num_classes):
        given = getattr(outputs, "shape", type(outputs).__name__)
        raise UserError("model.name", name, f"gives {given} for one image; wanted are logits (1, {config.num_classes})")


def check_statistics(name: str, statistics: Collection[str]) -> None:
    """Refuses a model that keeps statistics of its batches and isn't told how much each row counts.

    Raises:
        UserError: it isn't; the first of its statistics is named.
    """
    inputs = getattr(find("model", name), "INPUTS", ())
    if statistics and EXAMPLE_WEIGHT not in inputs:
        message = (
            f"keeps statistics ({min(statistics)}), so rows that only fill up a batch must not enter them: add "
            f'"{EXAMPLE_WEIGHT}": "weight" to its INPUTS, and take {EXAMPLE_WEIGHT}=None in its call'
        )
        raise UserError("model.name", name, message)


def check_contrast(name: str, objective: Objective, statistics: Collection[str]) -> None:
    """Refuses an objective whose rows see each other with a model that keeps statistics: its embeddings are made twice.

    Raises:
        UserError: it is one, and the model keeps some.
    """
    if statistics and isinstance(objective, WithEmbeddings):
        message = f"contrasts rows with each other, and the model keeps statistics of its batches ({min(statistics)})"
        raise UserError("objective.name", name, f"{message}: take LayerNorm or GroupNorm")


def check_best(experiment: Any, evaluations: dict[str, Evaluation], classes: int | None) -> None:
    """Refuses a best checkpoint by a metric that this kind of data doesn't give.

    Raises:
        UserError: it doesn't; those that it gives are named.
    """
    best = experiment.checkpoint.keep_best
    name, _, metric = best.partition("/")
    part = evaluations[name].evaluator if name in evaluations else None
    if part is not None and hasattr(part, "metric_names"):
        mapping = evaluations[name].classes
        count = classes if mapping is None else mapping.count
        given = part.metric_names(evaluations[name].source.info.multi_label, count)
        if metric not in given:
            choices = ", ".join(f"{name}/{one}" for one in given)
            raise UserError("checkpoint.keep_best", best, f"these data give no {metric}; take one of {choices}")


def named_evaluation(name: str, evaluate: Callable, part: Any) -> Evaluation:
    """`evaluate(part)`, whose refusals name the evaluator.

    Raises:
        UserError: as `evaluate` does; where a split isn't there, one that is is named.
    """
    try:
        return evaluate(part)
    except UserError as refusal:
        told = of_evaluator(name, part, refusal)
        raise UserError(told.field, told.value, told.message + _split_instead(name, refusal)) from None


def _split_instead(name: str, refusal: UserError) -> str:
    """Where a split isn't there, the flag that names one which is."""
    if not isinstance(refusal, NoSuchSplit):
        return ""
    held_out = [split for split in refusal.there if split != "train"]
    cut = f"--config.data.split='train[:90%]' --config.evaluate.{name}.split='train[90%:]'"
    return f"; add {f'--config.evaluate.{name}.split={held_out[0]}' if held_out else cut}"
