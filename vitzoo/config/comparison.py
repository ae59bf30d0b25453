"""Settings compared: a run's, as `config.json` kept them, with those that it is to be resumed with; and all processes'.

What is kept must be read as it was written, else what hangs on it would go unchecked. Processes with other settings
would compute different things, in silence, or wait for each other for ever.
"""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.argument_types import checked
from vitzoo.config.build import leaves
from vitzoo.config.experiment import Experiment
from vitzoo.config.fields import field_of
from vitzoo.data.folders import is_moved
from vitzoo.errors import UserError
from vitzoo.limits import limits_of
from vitzoo.parallel import processes

SECTIONS = tuple(field.name for field in dataclasses.fields(Experiment) if field.default is dataclasses.MISSING)
NEEDED = ("model", "objective", "data")
"""Sections that every run's config has."""
KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


def read_object(file: Path, field: str) -> dict[str, Any]:
    """The settings that a JSON file holds.

    Args:
        file: the file.
        field: what names it, for the message.

    Raises:
        FileNotFoundError: there is none.
        UserError: it can't be read, is no JSON, names a field twice, is nested too deeply, or holds no object.
    """
    try:
        values = strict_json.read(file)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(field, str(file), f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(values, dict):
        raise UserError(field, str(file), f"holds {_kind(values)}, where a JSON object of settings is right")
    return values


def read_kept(file: Path, field: str, needed: Collection[str] = NEEDED) -> dict[str, Any]:
    """The settings of a run's `config.json`.

    Args:
        file, field: as for `read_object`.
        needed: sections that must be there.

    Raises:
        FileNotFoundError: there is none.
        UserError: as `read_object`, a section is missing, or is no object.
    """
    values = read_object(file, field)
    for name in SECTIONS:
        if name not in values and name in needed:
            raise UserError(field, str(file), f"lacks the section {name!r}: it isn't as the run wrote it")
        if name in values and not isinstance(values[name], dict):
            message = f"its section {name!r} is {_kind(values[name])}, where an object of settings is right"
            raise UserError(field, str(file), message)
    return values


def _kind(value: Any) -> str:
    return KINDS.get(type(value), "a number")


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
