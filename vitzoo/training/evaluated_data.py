"""The evaluators' examples beside the training's, and beside those that they had before a resume."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.data.duplicates import copies
from vitzoo.errors import UserError
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


def check_same(task: Task, then: Mapping[str, str], remedy: str) -> list[str]:
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


def _named_by_best(task: Task) -> Any:
    return task.resolved.experiment.checkpoint.keep_best.partition("/")[0]
