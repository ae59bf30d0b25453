"""What differs between the config of a run and the one it is to be resumed with."""

from collections.abc import Mapping
from typing import Any

from vitzoo.argument_types import checked
from vitzoo.config.build import leaves
from vitzoo.config.fields import field_of
from vitzoo.data.folders import is_moved
from vitzoo.limits import limits_of

UNSET = "unset"
Differences = dict[str, tuple[Any, Any]]


@checked()
def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Differences, Differences]:
    """The settings that differ, by dotted name: (old, new); `unset` where one of the two has no such setting.

    Args:
        old: values of the run (`config.json`); resolve it first, if an earlier version wrote it.
        new: values of the config now asked for.

    Returns:
        Differences of *meaning*, with which a run can't be resumed, and of *execution*, with which it can.
    """
    before, after = leaves(old), leaves(new)
    meaning: Differences = {}
    execution: Differences = {}
    for path in dict.fromkeys([*before, *after]):
        pair = before.get(path, UNSET), after.get(path, UNSET)
        if pair[0] != pair[1]:
            # data that have moved are the same data where the fingerprint in the checkpoint says so
            moved = path[-1] == "name" and is_moved(*pair)
            kind = execution if moved or is_execution(path, new) else meaning
            kind[".".join(path)] = pair
    return meaning, execution


def is_execution(path: tuple[str, ...], values: Mapping[str, Any]) -> bool:
    """Whether a setting says how things are computed and not what: it may change when a run is resumed.

    It does where it, or the section that it is in, is declared so.
    """
    fields = [field_of(path[:depth], values) for depth in range(1, len(path) + 1)]
    return any(field is not None and limits_of(field).execution for field in fields)
