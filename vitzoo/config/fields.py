"""Every setting by its dotted name: which there are, where each is declared, and how the values of two configs differ.

A run's settings, as `config.json` kept them, are compared with those that it is to be resumed with; and those of all
processes, which would compute different things, in silence, or wait for each other for ever.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vitzoo.argument_types import checked
from vitzoo.config.contracts import ObjectiveSettings
from vitzoo.config.experiment import Experiment
from vitzoo.config.layers import leaves
from vitzoo.config.model import USUAL, config_class_of, input_kinds, settings_class
from vitzoo.data.folders import is_moved
from vitzoo.errors import UserError
from vitzoo.limits import limits_of
from vitzoo.parallel import processes
from vitzoo.registry import PARTS, find
from vitzoo.schema import annotations
from vitzoo.spelling import closest

KINDS = {"objective": "objective", "optimizer": "optimizer", "schedule": "schedule", "evaluate": "evaluator"}
"""Which kind of part each section names."""

Parts = Mapping[str, Iterable[type]]
"""By section (`model`, `optimizer`, ..., `evaluate`), the dataclasses of the settings that it may hold."""


def nearest_setting(name: str, parts: Parts) -> str | None:
    """The dotted name of the setting that is most probably meant by `name` (`epochs`, `--lr`), or None."""
    known = list(settings(parts))
    sections = [section for section, _, field in (one.partition(".") for one in known) if field == "name"]
    found = closest(name, [*sections, *known])  # `--model vit` stands for `model.name`
    return f"{found}.name" if found in sections else found


def settings(parts: Parts) -> Iterator[str]:
    """The dotted name of every setting: first those outside of sections, last an evaluator's, `evaluate.EVALUATOR.`"""
    hints = annotations(Experiment)
    plain = {name: [hint] for name, hint in hints.items() if isinstance(hint, type)}
    sections = {**{name: part for name, part in plain.items() if dataclasses.is_dataclass(part[0])}, **parts}
    for input, kind in {name: kind for kind, name in USUAL.items()}.items():
        sections |= dict(_nested(f"inputs.{input}", settings_class(input, kind)))
    yield from (name for name in hints if name not in sections and name != "inputs")
    for section in sorted(sections, key=lambda name: name == "evaluate"):
        place = "evaluate.EVALUATOR" if section == "evaluate" else section
        fields = dict.fromkeys(field for part in sections[section] for field in annotations(part))
        yield from (f"{place}.{field}" for field in (*["name"] * (section in parts), *fields))


def _nested(section: str, cls: type) -> Iterator[tuple[str, list[type]]]:
    """A section's settings, and those of the sections within it."""
    yield section, [cls]
    for name, hint in annotations(cls).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _nested(f"{section}.{name}", hint)


def every_part() -> dict[str, list[type]]:
    """All that vitzoo has for each section."""
    found = {section: [find(kind, name) for name in PARTS[kind]] for section, kind in KINDS.items()}
    return {"model": [config_class_of(name) for name in PARTS["model"]], **found}


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
        return config_class_of(name) if path[0] == "model" else find(KINDS[path[0]], name, ".".join((*path, "name")))
    except UserError:
        return None


def _input_class(name: str, values: Mapping[str, Any]) -> type | None:
    try:
        objective: type[ObjectiveSettings] = find("objective", values["objective"]["name"])
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


def check_same(values: Mapping[str, Any], flags: Mapping[str, Any] | None = None) -> None:
    """Compares the settings of all processes; only where data lie may differ, and how they are read.

    Args:
        values: of the resolved config.
        flags: further ones of the command, by name.

    Raises:
        UserError: a process was given another value, in every process.
    """
    if processes.count() == 1:
        return
    everyone = processes.gather([values, flags or {}])
    for index, (theirs, flags_there) in enumerate(everyone):
        different = differences(everyone[0][0], theirs) | {
            name: (value, flags_there.get(name))
            for name, value in everyone[0][1].items()
            if value != flags_there.get(name)
        }
        for name, (first, other) in different.items():
            raise UserError(name, first, f"process {index} has {other}; give all processes the same settings")


def differences(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings in which two processes' configs may not differ and do, by name: (first, other)."""
    meaning, execution = compare(first, other)
    return meaning | {name: pair for name, pair in execution.items() if "data" not in name.split(".")}


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
