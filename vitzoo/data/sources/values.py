"""What the fields of a record hold: values of the types that they must have, and texts made of several fields,
`mnli hypothesis: {hypothesis} premise: {premise}`.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vitzoo import literals, spelling
from vitzoo.data.sources.labels import whole_number
from vitzoo.data.text.lines import HALF, is_whole
from vitzoo.strict_json import JSON

Stored = JSON | bytes | np.ndarray | np.generic | Sequence["Stored"] | Mapping[str, "Stored"]
"""What a record of TFDS has in a field."""
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

    def __call__(self, record: Mapping[str, JSON]) -> str:
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


def value_of(record: Mapping[str, JSON], name: str) -> JSON:
    """What a record has under a name, or a template makes of it."""
    return name(record) if isinstance(name, Template) else record[name]


def read_field(record: Mapping[str, Stored], name: str) -> JSON:
    """The same of a record of TFDS, in Python's own types."""
    return value_of({one: plain(record[one]) for one in names_of(name)}, name)


def plain(value: Stored) -> JSON:
    """A value of a record of TFDS, bytes and NumPy's, as text, numbers, lists and dicts."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    return value


def _shown(value: JSON, name: str) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"field {name!r} must be text, a number or a list of texts, to stand in data.template")
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    if not is_whole(text):
        raise ValueError(f"field {name!r} {HALF}")
    return text


def converter(own: Mapping[str, str]) -> Callable[[Mapping[str, JSON]], dict[str, JSON]]:
    """From a record to canonical fields, labels and tags still as they stand. What is of the wrong type, or doesn't go
    together, raises ValueError that names it.
    """

    def convert(record: Mapping[str, JSON]) -> dict[str, JSON]:
        example: dict[str, Any] = {field: _value(field, value_of(record, name), name) for field, name in own.items()}
        if "tags" in example and len(example["tags"]) != len(example["words"]):
            raise ValueError("words and tags differ in number")
        if "answer" in example and not 0 <= example["answer"] < len(example["choices"]):
            raise ValueError("the answer must be the index of a choice")
        return example

    return convert


def _value(field: str, value: JSON, name: str) -> JSON:
    if field == "image":
        return _file(value, name)
    if field == "label":
        return _text(value, name) if isinstance(value, str) else value
    if field == "answer":
        return _index(value)
    if field == "turns":
        return _turns(value, name)
    if field == "answers":
        return answers(value, name)
    if field in ("words", "choices", "tags"):
        if not isinstance(value, list) or (field != "tags" and not all(isinstance(item, str) for item in value)):
            raise ValueError(f"field {name!r} must be a list{'' if field == 'tags' else ' of strings'}")
        return [_text(item, name) if isinstance(item, str) else item for item in value]
    return _text(value, name)


def _text(value: JSON, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"field {name!r} must be text")
    if not is_whole(value):
        raise ValueError(f"field {name!r} {HALF}")
    return value


def _file(value: JSON, name: str) -> str:
    file = _text(value, name)
    if not file.strip() or "\0" in file:
        raise ValueError(f"field {name!r} must name the file of an image")
    return file


def _index(value: JSON) -> int:
    """The number of a choice, which may be written as text."""
    index = literals.counted(value) if isinstance(value, str) else whole_number(value)
    if index is None:
        raise ValueError("the answer must be the index of a choice")
    return index


def answers(value: JSON, name: str = "answers") -> list[str]:
    """One answer, several, or SQuAD's {"text": several}, as a list; anything else raises ValueError."""
    value = value.get("text") if isinstance(value, dict) else value
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"field {name!r} must be text, or a list of texts that are all right")
    return [_text(one, name) for one in found]


def _turns(value: JSON, name: str) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"field {name!r} must be a list of turns")
    turns = []
    for number, turn in enumerate(value):
        if isinstance(turn, str):  # speakers alternate
            turn = {"role": ("user", "assistant")[number % 2], "text": turn}
        elif not isinstance(turn, dict):
            raise ValueError(f"field {name!r}: a turn must be text or an object with role and content")
        role, said = turn.get("role", turn.get("from")), turn.get("content", turn.get("text", turn.get("value")))
        if not isinstance(role, str) or not isinstance(said, str):
            raise ValueError(f"field {name!r}: a turn needs role and content")
        turns.append({"role": _text(role, name), "text": _text(said, name)})
    return turns
