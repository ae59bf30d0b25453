"""`config.json` as a run keeps it: read again it must be what was written, else what hangs on it would go unchecked."""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.config.experiment import Experiment
from vitzoo.errors import UserError

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
