"""How long a training is."""

from fractions import Fraction
from typing import Any, overload

from vitzoo.errors import UserError

MOST = 2**31 - 1  # steps, which devices count in int32


@overload
def total_steps(experiment: Any, examples: int) -> int: ...


@overload
def total_steps(experiment: Any, examples: int | None) -> int | None: ...


def total_steps(experiment: Any, examples: int | None) -> int | None:
    """The length of a training in steps: every example of the last epoch is seen, so a part of a step counts as one.

    Args:
        examples: rows of an epoch; None where they aren't known, and then the length is only known of a config that
            doesn't count epochs.

    Raises:
        UserError: so many epochs are more steps than can be counted.
    """
    if experiment.total_steps is not None:
        return experiment.total_steps
    if experiment.total_examples is not None:
        seen: Fraction | int = experiment.total_examples
    elif examples is None:
        return None
    else:
        seen = exact(experiment.total_epochs) * examples
    steps = max(1, experiment.min_steps, -(-seen // experiment.data.batch_size))
    if steps > MOST:
        message = f"of {examples:,} examples come to {float(steps):.3g} steps; there can be {MOST:,}"
        raise UserError("total_epochs", experiment.total_epochs, message)
    return steps


def exact(number: float) -> Fraction:
    """The number as it is written: 0.1 means a tenth, not its nearest binary fraction."""
    return Fraction(str(number))
