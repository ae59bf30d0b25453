"""Whether a training is longer than its warm-up and its cooldown: if not, the learning rate never reaches its peak."""

from fractions import Fraction
from pathlib import Path

from vitzoo.config import Resolved
from vitzoo.config.experiment import DURATIONS, Experiment
from vitzoo.errors import UserError
from vitzoo.planning.training_data import exact, total_steps

SPANS = ("warmup", "cooldown")
UNITS = ("steps", "epochs", "examples", "fraction")
COUNTED = ("data.name", "data.split", "data.validation_fraction", "text.", "tokenizer.", "mixture.")
"""What decides how many examples an epoch has; of sections, all their settings."""


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
