"""The item `loop` of a checkpoint: the counters and what the loop remembers, saved as JSON."""

from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.checkpoints import typed
from vitzoo.checkpoints.manifest import Damaged

COUNTERS = ("step", "updates", "skipped")
_KNOWN = {
    "best": typed.optional(typed.OBJECT),
    "evaluated": typed.STEP,
    "total_steps": typed.STEP,
    "evaluated_data": typed.by_name(typed.TEXT, "texts"),
    "averaged": typed.LIST,
    "teacher": typed.optional(typed.OBJECT),
    "window": typed.optional(typed.OBJECT),
}
_WINDOW = {
    "sums": typed.by_name(typed.each(typed.ANY_NUMBER, "numbers", 2), "pairs of numbers"),
    "last": typed.by_name(typed.ANY_NUMBER, "numbers"),
    "skipped_in_a_row": typed.STEP,
}


def read(folder: Path) -> dict[str, Any]:
    """The loop's plain values in a checkpoint.

    Args:
        folder: the step's.

    Raises:
        Damaged: they can't be read, or one is missing or of another type than is saved.
    """
    file = folder / "loop" / "metadata"
    try:
        values = strict_json.read(file)
    except (ValueError, OSError) as error:
        raise Damaged(file, f"can't be read ({error})") from None
    typed.check(file, values, dict.fromkeys(COUNTERS, typed.STEP), _KNOWN)
    if values.get("best") is not None:
        typed.check(file, values["best"], {"step": typed.STEP, "value": typed.NUMBER}, within="best")
    if values.get("window") is not None:
        typed.check(file, values["window"], _WINDOW, within="window")
    return values
