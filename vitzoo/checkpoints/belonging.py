"""Whether a checkpoint is of the run in whose folder it lies: what it says of itself against `config.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo import strict_json

CONFIG = "config.json"
_NAMES = (("model", "name"), ("model", "variant"), ("objective", "name"))


def other_name(values: Mapping[str, Any], description: Mapping[str, Any]) -> str:
    """What tells a checkpoint's model or objective apart from its run's; empty where nothing does.

    Args:
        values: of the run's config; what it leaves out, as with `init_from`, may be anything.
        description: the content of the checkpoint's `model.json`.
    """
    for section, field in _NAMES:
        stated = values.get(section)
        wanted = stated.get(field) if isinstance(stated, dict) else None
        if wanted and wanted != (found := description[section].get(field, "")):
            return told(f"{section}.{field}", found, wanted)
    return ""


def other_setting(wanted: Mapping[str, Any], found: Mapping[str, Any], section: str) -> str:
    """The same of all settings that both have.

    Args:
        wanted: the run's, by name.
        found: the checkpoint's.
        section: that they are of.
    """
    for name, value in json.loads(json.dumps(dict(wanted))).items():
        if name in found and _plain(found[name]) != _plain(value):
            return told(f"{section}.{name}", found[name], value)
    return ""


def _plain(value: Any) -> Any:
    """A setting's value, comparable: 8 and [8, 8] are the same size."""
    return value[0] if isinstance(value, list) and value and all(one == value[0] for one in value) else value


def told(setting: str, found: Any, wanted: Any) -> str:
    """In words."""
    return f"is of another run: its {setting} is {found or 'none'}, this run's ({CONFIG}) {wanted}"


def stray(run: Path | None, description: Mapping[str, Any]) -> str:
    """`other_name` of a checkpoint in a run's folder; empty where there is no config that can be read."""
    if run is None:
        return ""
    try:
        values = strict_json.read(run / CONFIG)
    except (OSError, ValueError):  # whoever needs it says so
        return ""
    return other_name(values, description) if isinstance(values, dict) else ""
