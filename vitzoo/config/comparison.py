"""What differs between the config of a run and the one it is to be resumed with."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.config.build import KINDS, leaves
from vitzoo.config.experiment import Experiment, config_class_of
from vitzoo.errors import Refused
from vitzoo.parts import find
from vitzoo.schema import annotations, limits_of

UNSET = "unset"
Differences = dict[str, tuple[Any, Any]]


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
            kind = execution if is_execution(path, new) else meaning
            kind[".".join(path)] = pair
    return meaning, execution


def is_execution(path: tuple[str, ...], values: Mapping[str, Any]) -> bool:
    """Whether a setting says how things are computed and not what: it may change when a run is resumed."""
    fields = {field.name: field for field in dataclasses.fields(Experiment)}
    if path[0] not in fields:
        return False
    if limits_of(fields[path[0]]).execution:
        return True
    section = _section_class(path[0], values)
    inner = {field.name: field for field in dataclasses.fields(section)} if section else {}
    return len(path) > 1 and path[1] in inner and limits_of(inner[path[1]]).execution


def _section_class(section: str, values: Mapping[str, Any]) -> Any:
    name = values.get(section, {}).get("name", "") if isinstance(values.get(section), Mapping) else ""
    try:
        if section == "model":
            return config_class_of(name) if name else None
        if section in KINDS:
            return find(KINDS[section], name)
    except Refused:
        return None
    hint = annotations(Experiment)[section]
    return hint if dataclasses.is_dataclass(hint) else None
