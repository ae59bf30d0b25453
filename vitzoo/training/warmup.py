"""Whether a training is longer than its warm-up: if not, the learning rate never reaches its peak."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from vitzoo.config import Resolved
from vitzoo.config.experiment import DURATIONS
from vitzoo.errors import Refused
from vitzoo.planning.length import exact, total_steps

UNITS = ("steps", "epochs", "examples", "fraction")


def check_warmup(resolved: Resolved, workdir: str | Path | None, examples: int | None = None) -> None:
    """Refuses a warm-up not shorter than the training that the config asks for. Who shortens that by a flag, to try
    a recipe, is only warned (`header.warnings`), unless the warm-up is a flag's too.

    Args:
        resolved: the config.
        workdir: the run's folder, if one is named; a run that has begun goes on as it began.
        examples: of an epoch; None before the data are known, when only what needs none is checked.

    Raises:
        Refused: it isn't shorter.
    """
    experiment, sources = resolved.experiment, resolved.sources
    schedule = experiment.schedule
    warmup = next((name for unit in UNITS if getattr(schedule, name := f"warmup_{unit}", 0)), None)
    if warmup is None or (workdir is not None and (Path(workdir) / "config.json").is_file()):
        return
    length = next(name for name in DURATIONS if getattr(experiment, name) is not None)
    if sources.get(length) == "flag" and sources.get(f"schedule.{warmup}") != "flag":
        return
    if _lasts(experiment, warmup, length, examples):
        steps = None if length == "total_steps" else total_steps(experiment, examples)
        told = f"{length} = {getattr(experiment, length):g}" + (f", {steps:,} steps" if steps else "")
        message = (
            f"is not shorter than the training ({told}), so that optimizer.learning_rate = "
            f"{experiment.optimizer.learning_rate:g} is never reached; shorten the warm-up, or train longer"
        )
        raise Refused(f"schedule.{warmup}", getattr(schedule, warmup), message)


def _lasts(experiment: Any, warmup: str, length: str, examples: int | None) -> bool:
    """Whether the warm-up lasts to the end; False where that can't be known without the number of examples."""
    value, unit = exact(getattr(experiment.schedule, warmup)), warmup.removeprefix("warmup_")
    if unit == "fraction":
        return value >= 1
    if unit == length.removeprefix("total_") and not experiment.min_steps:
        return value >= exact(getattr(experiment, length))
    if (unit == "epochs" and examples is None) or (total := total_steps(experiment, examples)) is None:
        return False
    size = experiment.data.batch_size
    steps_per = {"steps": Fraction(1), "examples": Fraction(1, size), "epochs": Fraction(examples or 0, size)}
    return value * steps_per[unit] >= total
