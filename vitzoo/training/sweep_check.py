"""What stands in the way of a sweep, found before the first of its runs is trained."""

from collections.abc import Sequence
from pathlib import Path

from vitzoo import strict_json
from vitzoo.config.experiment import Experiment
from vitzoo.errors import UserError
from vitzoo.outputs import checked_folder
from vitzoo.schema import checkpoints_of
from vitzoo.training import lock, run_folder, setup
from vitzoo.training.grid import Point
from vitzoo.training.warmup import check_warmup
from vitzoo.weights.open import open_weights

TABLES = ("sweep.json", "sweep.csv", "sweep.png")
"""What a sweep writes in its folder, besides the folders of its runs."""


def check_sweep(points: Sequence[Point], workdir: Path) -> None:
    """Looks at the folder, at those of the runs, at the devices and at the checkpoints that the runs differ in; leaves
    no trace.

    Raises:
        UserError: the folder is a run's, holds files that a sweep would overwrite, or can't be used; the runs would be
            compared by different metrics; or one of them can't be trained in its folder or on these devices.
    """
    _check_folder(checked_folder("--workdir", workdir))
    _check_comparable(points)
    for point in points:
        check_warmup(point.resolved, workdir / point.name)
        setup.mesh_of(point.resolved.experiment)
        lock.check_usable(workdir / point.name)
        run_folder.check_config(workdir / point.name, point.resolved.values)
    named: dict[tuple[str, str], None] = {}
    for point in points:
        frozen = checkpoints_of(point.resolved.experiment.objective)
        fields = ("init_from", *(f"objective.{name}" for name in frozen))
        named |= dict.fromkeys((field, point.values[field]) for field in fields if field in point.values)
    for field, name in named:  # what all runs share is found by the first
        _check_weights(field, name)


def comparable_by(experiment: Experiment) -> list[str]:
    """The metrics that runs of a config could be compared by, best first: what it keeps the best of, else the first
    evaluator's loss and then its other metrics, else the training's loss.
    """
    if experiment.checkpoint.keep_best:
        return [experiment.checkpoint.keep_best]
    for name, evaluator in experiment.evaluate.items():
        known = sorted(evaluator.BETTER, key=lambda metric: metric != "loss")
        return [f"{name}/{metric}" for metric in known] or [f"{name}/loss"]
    return ["train/loss"]


def told_runs(workdir: Path) -> list[str]:
    """The names of the runs of which the table in a sweep's folder tells; none where there is no such table."""
    try:
        return [str(run["name"]) for run in strict_json.read(workdir / TABLES[0])["runs"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _check_folder(workdir: Path) -> None:
    if (workdir / run_folder.CONFIG).exists():
        raise UserError("--workdir", str(workdir), "is the folder of a run; name another for the sweep's runs")
    there = [name for name in TABLES if (workdir / name).exists()]
    if there and not told_runs(workdir):
        message = f"holds {', '.join(there)}, not written by a sweep; move it away, or name another folder"
        raise UserError("--workdir", str(workdir), message)


def _check_comparable(points: Sequence[Point]) -> None:
    first, *others = [(comparable_by(point.resolved.experiment)[0], point) for point in points]
    for metric, point in others:
        if metric != first[0]:
            message = f"would be compared by {metric}, and {first[1].typed} by {first[0]}; sweep it apart"
            raise UserError("--over", point.typed, message)


def _check_weights(field: str, name: str) -> None:
    if name in ("", "none"):
        return
    try:
        open_weights(name)
    except UserError as refusal:
        raise UserError(field, name, refusal.message) from None
