"""What a run remembers besides its state: what was evaluated, what was best, when the next line is due."""

from typing import Any

from vitzoo.errors import RunError, UserError
from vitzoo.evaluation.settings import of_evaluator
from vitzoo.steps.state import evaluated
from vitzoo.training import evaluated_data
from vitzoo.training.metrics import Metrics
from vitzoo.training.progress import Progress
from vitzoo.training.saving import due, period
from vitzoo.training.setup import Task
from vitzoo.training.signals import Signals


class _CutOff(Exception):
    """A signal asked to stop in the middle of an evaluation."""


class Records:
    """Evaluates when due and knows the best so far.

    Args:
        task: the training.
        loop: `evaluated` and `best` of the checkpoint that the run resumes from.
    """

    def __init__(self, task: Task, loop: dict):
        experiment = task.resolved.experiment
        size, examples = experiment.data.batch_size, task.info.n
        self._task = task
        self._periods = {name: period(part, size, examples) for name, part in experiment.evaluate.items()}
        self._keep_best: str = experiment.checkpoint.keep_best
        self._evaluated: int = loop.get("evaluated", loop["step"])
        self.best: dict | None = loop.get("best")
        self.log_period = period(experiment.log, size, examples)

    @property
    def best_step(self) -> int | None:
        """The step of the best checkpoint so far."""
        return self.best["step"] if self.best else None

    def saved(self) -> dict[str, Any]:
        """Plain values for the checkpoint."""
        kept = {"best": self.best, "evaluated": self._evaluated, "total_steps": self._task.total_steps}
        return {**kept, "evaluated_data": evaluated_data.fingerprints(self._task)}

    def evaluate(self, step: int, state: dict, metrics: Metrics, progress: Progress, signals: Signals) -> None:
        """Run the evaluators that are due, all at the end, and write their lines.

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
            metrics.evaluation(step, name, values)
            progress.evaluation_line(step, name, values)
            self._compare(step, name, values)

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
        improved = self.best is None or better(value, self.best["value"]) == value  # a tie goes to the later step
        if value == value and improved:  # a NaN is never the best
            self.best = {"step": step, "value": value}
