"""What a setting may be beyond its type, and the refusal of a value that is outside."""

import dataclasses
import struct
from collections.abc import Callable, Sequence
from typing import Any

from vitzoo.errors import UserError
from vitzoo.spelling import nearest

LARGEST_INTEGER = 2**31 - 1  # steps, seeds and sizes cross to the device as 32-bit integers
LARGEST_NUMBER = 3.4028234e38  # of float32, in which is computed
SMALLEST_NUMBER = 2.0**-126  # of float32 above 0 with all its digits; below it processors compute with 0


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a value may be, beyond its type."""

    help: str
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    choices: Sequence[str] | None = None
    form: str = ""  # of several values, what each is: HEIGHT,WIDTH
    subnormal: bool = False  # what float32 takes for 0 is allowed: whoever reads it knows of this
    execution: bool = False  # may differ when a run is resumed: it changes how, not what, is computed
    checkpoint: bool = False  # of an objective: names a checkpoint, whose frozen model `bind` is given
    # another setting without which it does nothing, in words (`{section}.log`), and whether a part has that on
    needs: tuple[str, Callable[[Any], Any]] | None = None


def limits_of(field: dataclasses.Field) -> Limits:
    """The limits a field was declared with; none for a plain dataclass field."""
    return field.metadata.get("limits", Limits(""))


def check_limits(limits: Limits, value: Any, field: str) -> None:
    """Refuses a value (or one of a tuple's or a dict's values) outside its limits."""
    if isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            check_limits(limits, item, field)
        return
    if limits.choices is not None and isinstance(value, str) and value not in limits.choices:
        raise UserError(field, value or "''", nearest(value, limits.choices))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    bounds = (
        ("at least", limits.minimum, lambda bound: value >= bound),
        ("above", limits.above, lambda bound: value > bound),
        ("at most", limits.maximum, lambda bound: value <= bound),
        ("below", limits.below, lambda bound: value < bound),
    )
    if not all(bound is None or holds(bound) for _, bound, holds in bounds):
        said = " and ".join(f"{word} {_shown_bound(bound)}" for word, bound, _ in bounds if bound is not None)
        raise UserError(field, value, f"must be {said}")
    if isinstance(value, int) and limits.maximum is None and value > LARGEST_INTEGER:
        raise UserError(field, value, f"must be at most {LARGEST_INTEGER:,}")
    if limits.maximum is None and abs(value) > LARGEST_NUMBER:
        raise UserError(field, value, f"must be at most {LARGEST_NUMBER:.2g}, the largest number of float32")


def check_survives_float32(limits: Limits, value: Any, field: str) -> None:
    """Refuses what lies within its limits and, in float32, becomes 0 or the limit that it may not be."""
    if isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            check_survives_float32(limits, item, field)
    if not isinstance(value, float):
        return
    if 0 < abs(value) < SMALLEST_NUMBER:
        smallest = f"{SMALLEST_NUMBER:.8g}"
        least = f"-{smallest} or below" if value < 0 else f"{smallest} or above"
        zero = "" if limits.above == 0 else "0, or "
        raise UserError(field, value, f"is too near to 0 for float32, in which it becomes 0; write {zero}{least}")
    for bound, word, step in ((limits.above, "more", 1), (limits.below, "less", -1)):
        if bound and _float32(value) == bound:
            (bits,) = struct.unpack("<i", struct.pack("<f", bound))
            (nearest_allowed,) = struct.unpack("<f", struct.pack("<i", bits + step))
            message = (
                f"is too near to {bound:g} for float32, in which it becomes {bound:g}; write {nearest_allowed:.8g}"
            )
            raise UserError(field, value, f"{message} or {word}")


def _float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _shown_bound(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
