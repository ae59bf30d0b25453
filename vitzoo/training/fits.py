"""Whether the parts of a training fit each other: model, objective, evaluators, data, and weights to start from.

And whether it is longer than its warm-up and its cooldown: if not, the learning rate never reaches its peak.
"""

from collections.abc import Callable, Collection
from fractions import Fraction
from pathlib import Path

import jax

from vitzoo.config import Resolved
from vitzoo.config.assembly import Assembly
from vitzoo.config.experiment import DURATIONS, Experiment
from vitzoo.config.model import ModelChoice, input_kinds
from vitzoo.data.inputs import Inputs
from vitzoo.data.splits import NoSuchSplit
from vitzoo.data.text.row_kinds import EXAMPLES
from vitzoo.errors import UserError
from vitzoo.evaluation.run import Evaluation
from vitzoo.evaluation.settings import Evaluator, of_evaluator
from vitzoo.models.base import ModelConfig
from vitzoo.nn import state as modules
from vitzoo.objectives.base import Objective, WithEmbeddings
from vitzoo.objectives.inputs import EXAMPLE_WEIGHT
from vitzoo.planning.training_data import exact, total_steps
from vitzoo.registry import find

SPANS = ("warmup", "cooldown")
UNITS = ("steps", "epochs", "examples", "fraction")
COUNTED = ("data.name", "data.split", "data.validation_fraction", "inputs.", "mixture.")
"""What decides how many examples an epoch has; of sections, all their settings."""


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


def check_outputs(made: Assembly, inputs: Inputs) -> None:
    """Refuses a user's own model of images that doesn't give each image a number for each class.

    Raises:
        UserError: it gives something else than logits `[batch, classes]`.
    """
    if inputs.row_kind != EXAMPLES:
        return
    graph, shapes = made.abstract
    call = lambda params, *given: modules.merge(graph, params)(*given, train=False, key=None)  # noqa: E731
    outputs, wanted = jax.eval_shape(call, shapes, *inputs.arguments(made.config)), (1, _classes(made.config))
    if getattr(outputs, "shape", None) != wanted:
        given = getattr(outputs, "shape", type(outputs).__name__)
        raise UserError("model.name", made.name, f"gives {given} for one image; wanted are logits {wanted}")


def _classes(config: ModelConfig) -> int | None:
    return getattr(config, "num_classes", None)


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


def check_best(experiment: Experiment, evaluations: dict[str, Evaluation], classes: int | None) -> None:
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


def named_evaluation(name: str, evaluate: Callable[[Evaluator], Evaluation], part: Evaluator) -> Evaluation:
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


def check_warmup(resolved: Resolved, workdir: str | Path | None, examples: int | None = None) -> None:
    """Refuses a warm-up not shorter than the training that the config asks for, and a cooldown that leaves it no room.
    Who shortens that by a flag, to try a recipe, is only warned (`header.warnings`), unless what is too long is a
    flag's too.

    Args:
        resolved: the config.
        workdir: the run's folder, if one is named; a run that has begun goes on as it began.
        examples: of an epoch; None before the data are known, when only what needs none is checked.

    Raises:
        UserError: it isn't shorter, or the two together are longer.
    """
    if workdir is not None and (Path(workdir) / "config.json").is_file():
        return
    experiment = resolved.experiment
    schedule = experiment.schedule
    length = next(name for name in DURATIONS if getattr(experiment, name) is not None)
    given = {what: name for what in SPANS for unit in UNITS if getattr(schedule, name := f"{what}_{unit}", 0)}
    parts = {what: _part(experiment, name, length, examples) for what, name in given.items()}
    if parts.get("warmup", 0) >= 1:
        named, problem = given["warmup"], "is not shorter than the training"
        given = {"warmup": named}
    elif sum(parts.values()) > 1:
        named, problem = given["cooldown"], "is longer than the training"
        if warmup := given.get("warmup"):
            problem = f"and {warmup} = {getattr(schedule, warmup)} are together longer than the training"
    else:
        return
    flags = [name for name, source in resolved.sources.items() if source == "flag"]
    own = {f"schedule.{name}" for name in given.values()}
    deciding = tuple(one for name in given.values() for one in _deciding(experiment, name, length))
    if own.isdisjoint(flags) and any(name.startswith(deciding) for name in flags):
        return
    steps = None if length == "total_steps" else total_steps(experiment, examples)
    told = f"{length} = {getattr(experiment, length):g}" + (f", {steps:,} steps" if steps else "")
    message = (
        f"{problem} ({told}), so that optimizer.learning_rate = {experiment.optimizer.learning_rate:g} is never "
        f"reached; shorten the {' or the '.join(given).replace('warmup', 'warm-up')}, or train longer"
    )
    raise UserError(f"schedule.{named}", getattr(schedule, named), message)


def _part(experiment: Experiment, name: str, length: str, examples: int | None) -> Fraction:
    """Which part of the training a span takes; 0 where that can't be known without the number of examples."""
    value, unit = exact(getattr(experiment.schedule, name)), _unit(name)
    if unit == "fraction":
        return value
    if not _converts(experiment, name, length):
        return value / exact(getattr(experiment, length))
    if (unit == "epochs" and examples is None) or (total := total_steps(experiment, examples)) is None:
        return Fraction(0)
    size = experiment.data.batch_size
    steps_per = {"steps": Fraction(1), "examples": Fraction(1, size), "epochs": Fraction(examples or 0, size)}
    return value * steps_per[unit] / total


def _deciding(experiment: Experiment, name: str, length: str) -> tuple[str, ...]:
    """The settings of the training's length beside which a span may be too long, or the beginnings of their names."""
    unit = _unit(name)
    if unit == "fraction":
        return ()
    if not _converts(experiment, name, length):
        return (length,)
    counted = COUNTED if "epochs" in (unit, _unit(length)) else ()
    return (length, "min_steps", "data.batch_size", *counted)


def _unit(name: str) -> str:
    return name.rpartition("_")[2]


def _converts(experiment: Experiment, name: str, length: str) -> bool:
    """Whether span and training are only comparable in steps."""
    return _unit(name) != _unit(length) or (length != "total_steps" and experiment.min_steps > 0)
