"""What a run remembers besides its state: what was evaluated, on which data, what was best, when the next line is due.

The evaluators' examples are compared with the training's, and with those that they had before a resume.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.checkpoints.metadata import Best, Loop
from vitzoo.data.duplicates import copies
from vitzoo.errors import RunError, UserError
from vitzoo.evaluation.settings import of_evaluator
from vitzoo.steps.state import evaluated
from vitzoo.training.metrics import Metrics
from vitzoo.training.progress import Progress
from vitzoo.training.saving import Signals, due, period
from vitzoo.training.setup import Task


def overlaps(task: Task) -> list[str]:
    """A line for each evaluator that measures examples which are trained on, or equal to such, as far as that
    is known.
    """
    data, best = task.resolved.experiment.data, _named_by_best(task)
    trained, found = getattr(task.source, "ids", None), []
    for name, evaluation in task.evaluations.items():
        measured = getattr(evaluation.source, "ids", None)
        if trained is None or measured is None or evaluation.data.name != data.name:
            continue
        chosen = f", and {task.resolved.experiment.checkpoint.keep_best} chooses the best" if name == best else ""
        measured = measured[getattr(evaluation.source, "first", 0) :]  # those before are learned from
        if shared := int(np.isin(measured, trained).sum()):
            found.append(
                f"evaluate.{name}.split = {evaluation.data.split}: {shared:,} of its {len(measured):,} examples are "
                f"trained on (data.split = {data.split}){chosen}"
            )
        if equal := copies(evaluation.source, task.source):
            found.append(
                f"evaluate.{name}.split = {evaluation.data.split}: {equal:,} of its {len(measured):,} examples are "
                f"equal to others, which are trained on (data.split = {data.split}){chosen}"
            )
    return found


def fingerprints(task: Task) -> dict[str, str]:
    """Of each evaluator's examples."""
    return {name: evaluation.source.info.fingerprint for name, evaluation in task.evaluations.items()}


def check_same_data(task: Task, then: Mapping[str, str], remedy: str) -> list[str]:
    """Compares the evaluators' examples with those that they had.

    Args:
        task: the training.
        then: the fingerprints by evaluator in the checkpoint that is resumed from.
        remedy: how to go on with others.

    Returns:
        A line for each evaluator that measures others now, and by which no best checkpoint is chosen.

    Raises:
        UserError: the best checkpoint is chosen by one whose examples have changed.
    """
    notes = []
    for name, now in fingerprints(task).items():
        if then.get(name, now) == now:
            continue
        what = f"its examples have changed since this run began (fingerprint {then[name]}, now {now})"
        if name == _named_by_best(task):
            chosen = f"{what}, and checkpoint.keep_best compares over them"
            raise UserError(
                "checkpoint.keep_best", task.resolved.experiment.checkpoint.keep_best, f"{chosen}; {remedy}"
            )
        notes.append(f"evaluate.{name}: {what}: its numbers before and after don't compare")
    return notes


def _named_by_best(task: Task) -> str:
    return task.resolved.experiment.checkpoint.keep_best.partition("/")[0]


class _CutOff(Exception):
    """A signal asked to stop in the middle of an evaluation."""


class Records:
    """Evaluates when due and knows the best so far.

    Args:
        task: the training.
        loop: `evaluated` and `best` of the checkpoint that the run resumes from.
    """

    def __init__(self, task: Task, loop: Loop):
        experiment = task.resolved.experiment
        size, examples = experiment.data.batch_size, task.info.n
        self._task = task
        self._periods = {name: period(part, size, examples) for name, part in experiment.evaluate.items()}
        self._keep_best: str = experiment.checkpoint.keep_best
        self._evaluated: int = loop.get("evaluated", loop["step"])
        self.best: Best | None = loop.get("best")
        self._patience: int = experiment.early_stopping
        self._not_improved: int = loop.get("not_improved", 0)
        self.log_period = period(experiment.log, size, examples)

    @property
    def best_step(self) -> int | None:
        """The step of the best checkpoint so far."""
        return self.best["step"] if self.best else None

    @property
    def stopped_early(self) -> bool:
        """Whether too many evaluations in a row were no better than the best before."""
        return 0 < self._patience <= self._not_improved

    def saved(self) -> dict[str, Any]:
        """Plain values for the checkpoint."""
        kept = {"best": self.best, "evaluated": self._evaluated, "not_improved": self._not_improved}
        return {**kept, "total_steps": self._task.total_steps, "evaluated_data": fingerprints(self._task)}

    def evaluate(self, step: int, state: dict, metrics: Metrics, progress: Progress, signals: Signals) -> None:
        """Run the evaluators that are due, all at the end (also at an early one), and write their lines.

        A signal cuts it short, except at the end; the run evaluates this step when it is resumed.
        """
        last = step == self._task.total_steps
        names = [name for name, every in self._periods.items() if last or due(step, every)]
        if step == self._evaluated or not names:
            return
        try:
            with progress.paused("evaluating"):
                results = {name: self._pass(name, state, None if last else signals) for name in names}
        except _CutOff:
            return
        self._evaluated = step
        for name, values in results.items():
            self._compare(step, name, values)
        if self.stopped_early:
            with progress.paused("evaluating"):
                results |= {name: self._pass(name, state, None) for name in self._periods if name not in results}
        for name, values in results.items():
            metrics.evaluation(step, name, values)
            progress.evaluation_line(step, name, values)

    def _pass(self, name: str, state: dict, signals: Signals | None) -> dict[str, Any]:
        def seen(_: int) -> None:
            if signals is not None and signals.poll():
                raise _CutOff

        evaluation = self._task.evaluations[name]
        try:
            params, which = evaluated(state)
            rows = evaluation.rows(params, seen, state)
            return {"weights": which, "n": len(rows["position"]), **evaluation.metrics(rows)}
        except UserError as refusal:
            raise of_evaluator(name, self._task.resolved.experiment.evaluate[name], refusal) from None

    def _compare(self, step: int, name: str, values: dict[str, Any]) -> None:
        evaluator, _, metric = self._keep_best.partition("/")
        if name != evaluator:
            return
        if metric not in values:
            raise RunError(f"checkpoint.keep_best = {self._keep_best}: {name} gives {', '.join(values)}")
        value = values[metric]
        better = self._task.resolved.experiment.evaluate[name].BETTER[metric]  # max or min
        then = None if self.best is None else self.best["value"]
        is_best = value == value and (then is None or better(value, then) == value)  # a NaN is never the best
        self._not_improved = 0 if is_best and value != then else self._not_improved + 1
        if is_best:  # a tie goes to the later step
            self.best = {"step": step, "value": value}
