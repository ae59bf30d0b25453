"""A sweep: the same training with other values of some settings, and a table of what came out.

What stands in its way is found before the first of its runs is trained.
"""

import csv
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from vitzoo import strict_json
from vitzoo.config.experiment import Experiment
from vitzoo.errors import RunError, UserError, out_of_memory
from vitzoo.outputs import checked_folder, write_whole
from vitzoo.schema import checkpoints_of
from vitzoo.training import lock, run_folder, setup
from vitzoo.training.curves import draw_sweep
from vitzoo.training.fits import check_warmup
from vitzoo.training.grid import Point
from vitzoo.training.loop import train
from vitzoo.weights.open import open_weights

TABLES = ("sweep.json", "sweep.csv", "sweep.png")
"""What a sweep writes in its folder, besides the folders of its runs."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Attributes:
        point: the run.
        metrics: `EVALUATOR/METRIC` at its end.
        best: the value of `checkpoint.keep_best`, where the config keeps a best.
        error: why it couldn't run or end.
    """

    point: Point
    metrics: dict[str, float]
    best: float | None
    error: str | None

    def score(self, metric: str) -> float | None:
        """Of the metric that runs are compared by: the best that was kept, else the last."""
        return self.best if self.best is not None else self.metrics.get(metric)


def sweep(points: Sequence[Point], workdir: str | Path, out: TextIO | None = None) -> dict[str, Any]:
    """Trains every run that isn't finished yet, each in `workdir/NAME`, and writes `sweep.csv`, `sweep.json` and
    `sweep.png` there; the same call again goes on where it was stopped.

    Args:
        points: from `grid.points`.
        workdir: the folder for all.
        out: where progress goes; standard output by default.

    Returns:
        Plain values: `workdir`, `metric` that the runs are compared by, `best` (a run's name or None), `runs` (`name`,
        `values`, `metrics`, `best`, `error`), `exit_code` (0, 1 where a run failed, 75 or 130 after a signal).

    Raises:
        UserError: something stands in the way of one of the runs before the first begins (see `check_sweep`), or no run
            could begin.
    """
    out, workdir = out or sys.stdout, Path(workdir)
    check_sweep(points, workdir)
    outcomes: list[Outcome] = []
    refusals: list[UserError] = []
    exit_code = 0
    for number, point in enumerate(points, 1):
        if number > 1:
            _check_there(workdir, outcomes)
        print(f"\nrun {number} of {len(points)}: {point.name}", file=out, flush=True)
        try:
            result = train(point.resolved, workdir / point.name, out)
        except (UserError, RunError) as error:
            refusals += [error] if isinstance(error, UserError) else []
            outcomes.append(_failed(point, error, out))
            continue
        except Exception as error:
            if (failed := out_of_memory(error)) is None:
                raise
            outcomes.append(_failed(point, failed, out))
            continue
        if result["exit_code"] in STOPPED:
            exit_code = result["exit_code"]
            break
        outcomes.append(_outcome(point, result))
    if points and len(refusals) == len(points):
        raise refusals[0]
    _check_there(workdir, outcomes)
    exit_code = exit_code or int(any(outcome.error for outcome in outcomes))
    metric = _metric(points, outcomes)
    values = _values(workdir, metric, outcomes, exit_code)
    _write(workdir, outcomes, metric, values, out)
    return values


def _check_there(workdir: Path, outcomes: Sequence[Outcome]) -> None:
    """Fails where the folder of a run that ended well is gone: the table would tell of what isn't there."""
    for outcome in outcomes:
        if outcome.error is None and not (workdir / outcome.point.name).is_dir():
            what = workdir if not workdir.is_dir() else workdir / outcome.point.name
            raise RunError(f"{what} was moved or deleted while the sweep was running; no table was written")


def _metric(points: Sequence[Point], outcomes: Sequence[Outcome]) -> str:
    """What runs are compared by: the first of the metrics that they could be compared by which some run has."""
    able = comparable_by(points[0].resolved.experiment)
    return next((metric for metric in able if any(one.score(metric) is not None for one in outcomes)), able[0])


def _failed(point: Point, error: UserError | RunError, out: TextIO) -> Outcome:
    print(f"failed  {error}", file=out, flush=True)
    return Outcome(point, {}, None, str(error))


def _outcome(point: Point, result: dict[str, Any]) -> Outcome:
    left_out = {"step", "split", "examples", "epoch", "seconds"}
    metrics = {
        f"{split}/{key}": value
        for split, line in result["metrics"].items()
        for key, value in line.items()
        if key not in left_out and isinstance(value, int | float)
    }
    best = result["best"]
    return Outcome(point, metrics, None if best is None else best["value"], None)


def _better(outcome: Outcome, metric: str) -> Callable:
    """`max` or `min`, as the metric's evaluator says."""
    name, _, key = metric.partition("/")
    evaluators = outcome.point.resolved.experiment.evaluate
    return evaluators[name].BETTER.get(key, min) if name in evaluators else min


def _values(workdir: Path, metric: str, outcomes: Sequence[Outcome], exit_code: int) -> dict[str, Any]:
    scored = [(outcome.score(metric), outcome) for outcome in outcomes]
    scores = [score for score, _ in scored if score is not None and score == score]
    best = None
    if scores:
        top = _better(outcomes[0], metric)(scores)
        best = next(outcome.point.name for score, outcome in scored if score == top)
    runs = [
        {
            "name": outcome.point.name,
            "values": dict(outcome.point.values),
            "metrics": outcome.metrics,
            "best": outcome.best,
            "error": outcome.error,
        }
        for outcome in outcomes
    ]
    return {"workdir": str(workdir), "metric": metric, "best": best, "runs": runs, "exit_code": exit_code}


def _write(workdir: Path, outcomes: Sequence[Outcome], metric: str, values: dict[str, Any], out: TextIO) -> None:
    done = [outcome for outcome in outcomes if outcome.error is None]
    if not done:
        return
    if gone := [name for name in told_runs(workdir) if name not in {outcome.point.name for outcome in outcomes}]:
        names = ", ".join(gone[:3]) + (f" and {len(gone) - 3} more" if len(gone) > 3 else "")
        print(f"replaced {', '.join(TABLES)}, which told of {names} too; their folders stay", file=out, flush=True)
    text = json.dumps({key: value for key, value in values.items() if key != "workdir"}, indent=1) + "\n"
    write_whole(workdir / "sweep.json", lambda path: path.write_text(text))
    write_whole(workdir / "sweep.csv", lambda path: _write_table(path, outcomes))
    write_whole(
        workdir / "sweep.png",
        lambda path: draw_sweep(path, metric, [(outcome.point.values, outcome.score(metric)) for outcome in done]),
    )


def _write_table(path: Path, outcomes: Sequence[Outcome]) -> None:
    settings = list(outcomes[0].point.values)
    metrics = list(dict.fromkeys(key for outcome in outcomes for key in outcome.metrics))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["run", *settings, "best", *metrics, "error"])
        for one in outcomes:
            told = [one.metrics.get(key, "") for key in metrics]
            best = "" if one.best is None else one.best
            writer.writerow([one.point.name, *one.point.values.values(), best, *told, one.error or ""])


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


STOPPED = (75, 130)  # a signal asked for the end: the runs that are left are for the next time
