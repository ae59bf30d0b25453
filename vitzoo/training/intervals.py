"""When something is due: every so many steps, epochs or examples, and at the end."""

from fractions import Fraction
from typing import Any

from vitzoo.planning.training_data import exact


def due(step: int, period: Fraction | None) -> bool:
    """Whether a multiple of `period` (in steps, not always whole) lies in (step − 1, step]."""
    return period is not None and step // period > (step - 1) // period


def period(part: Any, batch_size: int, examples: int) -> Fraction | None:
    """The steps between two times, from a part's `every_steps`, `every_epochs` or `every_examples`; None without one.

    Args:
        part: a section or evaluator of the config.
        batch_size: examples a step.
        examples: examples an epoch.
    """
    if (steps := getattr(part, "every_steps", None)) is not None:
        return Fraction(steps)
    if (epochs := getattr(part, "every_epochs", None)) is not None:
        return exact(epochs) * examples / batch_size
    if (number := getattr(part, "every_examples", None)) is not None:
        return Fraction(number, batch_size)
    return None
