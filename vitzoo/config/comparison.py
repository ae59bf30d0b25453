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
            (execution if _may_change(path, pair, new) else meaning)[".".join(path)] = pair
    return meaning, execution


def first_other(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first difference of meaning in a setting that both have: its dotted name, old and new value."""
    before, after = leaves(old), leaves(new)
    for path, value in before.items():
        pair = value, after.get(path, value)
        if pair[0] != pair[1] and not _may_change(path, pair, new):
            return ".".join(path), *pair
    return None


def meaning_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of those settings that are a run's meaning."""
    found: dict[str, Any] = {}
    for path, value in leaves(values).items():
        if not is_execution(path, values):
            section = found
            for key in path[:-1]:
                section = section.setdefault(key, {})
            section[path[-1]] = value
    return found


def _may_change(path: tuple[str, ...], pair: tuple[Any, Any], new: Mapping[str, Any]) -> bool:
    # data that have moved are the same data where the fingerprint in the checkpoint says so
    return (path[-1] == "name" and is_moved(*pair)) or is_execution(path, new)


def is_execution(path: tuple[str, ...], values: Mapping[str, Any]) -> bool:
    """Whether a setting says how things are computed and not what: it may change when a run is resumed.

    It does where it, or the section that it is in, is declared so.
    """
    fields = [field_of(path[:depth], values) for depth in range(1, len(path) + 1)]
    return any(field is not None and limits_of(field).execution for field in fields)
