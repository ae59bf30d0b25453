"""A text made of several fields of a record: `mnli hypothesis: {hypothesis} premise: {premise}`."""

import string
from collections.abc import Mapping
from typing import Any

from vitzoo import spelling
from vitzoo.data.text.unicode import HALF, is_whole

FORM = "names fields in braces, `question: {question} context: {context}`; {{ and }} are braces themselves"


class Template(str):
    """A template, in the place of a field's name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields it is made of.

        Raises:
            ValueError: it is no template, or has no fields.
        """
        names = tuple(name for _, name, _, _ in self._parts() if name is not None)
        if not names:
            raise ValueError(FORM)
        return names

    def __call__(self, record: Mapping[str, Any]) -> str:
        """The text.

        Raises:
            ValueError: a field is neither text, nor a number, nor a list of texts, which is put with commas.
        """
        return "".join(
            before + ("" if name is None else _shown(record[name], name)) for before, name, _, _ in self._parts()
        )

    def _parts(self) -> list[tuple[str, str | None, str | None, str | None]]:
        parts = [
            (before, None if name is None else spelling.normalise(name), form, conversion)
            for before, name, form, conversion in string.Formatter().parse(self)
        ]
        for _, name, form, conversion in parts:
            if name == "" or form or conversion:
                raise ValueError(FORM)
        return parts


def names_of(name: str) -> tuple[str, ...]:
    """The record's fields behind a field's name, which may be a template."""
    return name.names if isinstance(name, Template) else (name,)


def value_of(record: Mapping[str, Any], name: str) -> Any:
    """What a record has under a name, or a template makes of it."""
    return name(record) if isinstance(name, Template) else record[name]


def read_field(record: Mapping[str, Any], name: str) -> Any:
    """The same of a record of TFDS, in Python's own types."""
    return value_of({one: plain(record[one]) for one in names_of(name)}, name)


def plain(value: Any) -> Any:
    """A value of a record of TFDS, bytes and NumPy's, as text, numbers, lists and dicts."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple) or getattr(value, "ndim", False):
        return [plain(part) for part in value]
    return plain(value.item()) if hasattr(value, "item") else value


def _shown(value: Any, name: str) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"field {name!r} must be text, a number or a list of texts, to stand in data.template")
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    if not is_whole(text):
        raise ValueError(f"field {name!r} {HALF}")
    return text
