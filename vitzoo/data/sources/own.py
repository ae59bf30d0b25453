"""The examples of a user's own dataset, each of which is checked when it is read."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from vitzoo.data.image_files import BadImage
from vitzoo.own_values import has_rows, is_array, is_number, is_numbers, shown
from vitzoo.registry import UserPartError


class OwnSource:
    """A source of a user's own, whose examples hold the fields that it says.

    Args:
        name: of the dataset, as the config says it.
        source: the examples of a split.
        of_text: whether fields that have a text's usual names are read as such.

    Raises:
        UserError: it doesn't tell how many there are, or its ids are no numbers; when an example is read, that this is
            no dict of its fields, or an image, a label or a text is none.
    """

    def __init__(self, name: str, source: Any, of_text: bool):
        self._name, self._source, self._of_text = name, source, of_text
        count, there = getattr(source.info, "n", None), len(source)
        if not (isinstance(count, int | np.integer) and count == there):
            raise UserPartError("data.name", name, f"its `info.n` is {shown(count)}, and there are {there} examples")
        if not (has_rows(source.ids, there) and is_numbers(source.ids, np.integer)):
            raise UserPartError("data.name", name, f"its `ids` are {shown(source.ids)}; wanted is int64[{there}]")
        if there:
            with contextlib.suppress(BadImage, OSError):  # one that can't be read may be left out
                self[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # in a process to which it travels there is no source yet
            raise AttributeError(name)
        return getattr(self._source, name)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> dict[str, Any]:
        example, fields = self._source[index], self._source.fields
        if problem := lacking(example, fields) or _other_value(example, fields, self._of_text):
            raise UserPartError("data.name", self._name, f"gives {problem} (example {index})")
        return example


def lacking(example: Any, fields: Mapping[str, str]) -> str:
    """Why an example isn't a dict of these fields; empty where it is."""
    if not isinstance(example, Mapping):
        return f"{shown(example)} as an example; wanted is a dict of {', '.join(fields)}"
    missing = next((field for field in fields if field not in example), "")
    return f"{shown(example)} as an example; it lacks {missing}" if missing else ""


def _other_value(example: Mapping[str, Any], fields: Mapping[str, str], of_text: bool) -> str:
    """Which field of an example isn't of its kind; empty where each is. Fields of other names may hold anything."""
    for field, kind in fields.items():
        right = _RIGHT.get(kind) or (_TEXTS.get(field) if of_text else None)
        if right is not None and not right[0](example[field]):
            return f"{shown(example[field])} as {field}; wanted is {right[1]}"
    return ""


def _is_image(value: Any) -> bool:
    in_memory = is_array(value) and is_numbers(value) and len(value.shape) in (2, 3)
    return in_memory or isinstance(value, bytes | os.PathLike | Image.Image)


_RIGHT = {
    "image": (
        _is_image,
        "a picture, the bytes of a file, a `Path`, or an array [height, width] or [height, width, channels]",
    ),
    "label": (lambda value: is_number(value, np.integer), "the number of a class"),
    "labels": (lambda value: is_array(value) and is_numbers(value), "an array of 0 and 1, one for each class"),
    "number": (is_number, "a number"),
}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray) and all(isinstance(one, str) for one in value)


def _is_turn(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(part), str) for part in ("role", "text"))


def _are_turns(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_turn, value))


_SINGLE = ("text", "prompt", "completion", "source", "target", "first", "second", "question", "passage")
_TEXTS = {
    **dict.fromkeys(_SINGLE, (lambda value: isinstance(value, str), "a text")),
    **dict.fromkeys(("words", "choices", "answers", "references"), (_are_texts, "a list of texts")),
    "turns": (_are_turns, 'a list of {"role": "user", "text": "..."}'),
}
