"""Faults of an evaluator, by the setting that is at fault as a user writes it."""

from typing import Any

from vitzoo.errors import UserError

SHORT = ("split", "batch_size")
"""Settings of the data that an evaluator has itself."""


def of_evaluator(name: str, evaluator: Any, refusal: UserError) -> UserError:
    """A refusal seen from outside an evaluator.

    Args:
        name: the evaluator's, `val`.
        evaluator: its settings.
        refusal: of one of them (`rows`), of one that it changes (`data.name`), of one of the config's that it leaves as
            it is, or of a flag.
    """
    section, dot, field = refusal.field.partition(".")
    if section == "data" and field in SHORT:
        return UserError(f"evaluate.{name}.{field}", refusal.value, refusal.message)
    changed = getattr(evaluator, section, None)
    if section.startswith("--") or (dot and not (isinstance(changed, dict) and field in changed)):
        return refusal
    return refusal.under(f"evaluate.{name}")
