"""Where each setting is declared, and a table of all of them with their help texts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.config.build import leaves
from vitzoo.config.experiment import Experiment, config_class_of
from vitzoo.config.inputs import input_kinds, settings_class
from vitzoo.config.names import KINDS
from vitzoo.errors import UserError
from vitzoo.limits import limits_of
from vitzoo.registry import find
from vitzoo.schema import annotations


def field_of(path: Sequence[str], values: Mapping[str, Any]) -> dataclasses.Field | None:
    """The dataclass field of the setting at `path`; none for a `name` and for what is inside a field's dict.

    Args:
        path: `("optimizer", "learning_rate")`, `("evaluate", "val", "split")`.
        values: a config's plain values, which name the parts.
    """
    if len(path) == 1:
        return _fields(Experiment).get(path[0])
    depth = 2 if path[0] in ("evaluate", "inputs") else 1
    if len(path) <= depth:
        return None
    section, field = _section_class(path[:depth], values), None
    for name in path[depth:]:
        if section is None:
            return None
        field, hint = _fields(section).get(name), annotations(section).get(name)
        section = hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None
    return field


def _fields(cls: type) -> dict[str, dataclasses.Field]:
    return {field.name: field for field in dataclasses.fields(cls)}


def _section_class(path: Sequence[str], values: Mapping[str, Any]) -> type | None:
    hint = annotations(Experiment).get(path[0])
    if path[0] != "model" and dataclasses.is_dataclass(hint):
        return hint  # type: ignore[return-value]
    if path[0] == "inputs":
        return _input_class(path[1], values)
    section: Any = values
    for key in path:
        section = section.get(key) if isinstance(section, Mapping) else None
    name = section.get("name") if isinstance(section, Mapping) else None
    if not name:
        return None
    try:
        return config_class_of(name) if path[0] == "model" else find(KINDS[path[0]], name)
    except UserError:
        return None


def _input_class(name: str, values: Mapping[str, Any]) -> type | None:
    try:
        objective = find("objective", values["objective"]["name"])
        kinds = input_kinds(values["model"].get("name", ""), objective)
        return settings_class(name, kinds[name]) if name in kinds else None
    except (UserError, LookupError, TypeError, AttributeError):  # of a config that is told of where it is resolved
        return None


def rows(values: Mapping[str, Any], sources: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """Every setting: its dotted name, its value as a flag would write it, where that comes from, its help text."""
    table = []
    for path, value in leaves(values).items():
        field, name = field_of(path, values), ".".join(path)
        help = limits_of(field).help if field else ""
        table.append((name, as_flag(value), sources.get(name, ""), help))
    return table


def as_flag(value: Any) -> str:
    """A plain value as it is written in `--config.KEY=VALUE`."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(":".join(map(as_flag, item)) if isinstance(item, list) else as_flag(item) for item in value)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
