"""What is to be predicted of text: texts, pairs and words, each with what its row begins with."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vitzoo import spelling
from vitzoo.data.settings import Data
from vitzoo.data.sources.fields import GIVEN, asked_for, form_of, several_fit
from vitzoo.data.sources.values import converter
from vitzoo.data.text.lines import read_lines
from vitzoo.data.text.settings import Text
from vitzoo.data.text.unicode import HALF, is_whole
from vitzoo.errors import UserError
from vitzoo.schema import build
from vitzoo.strict_json import parsed

FORMS = (("words",), ("first", "second"), ("text",), ("prompt",), ("source",))
JSON_LINES = (".jsonl", ".ndjson")
WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")


@dataclasses.dataclass(frozen=True)
class TextInput:
    """One text (`text`), pair (`first`, `second`) or list of `words`; or why there is none."""

    fields: dict[str, Any]
    error: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The text, or both of a pair."""
        fields = self.fields
        if "words" in fields:
            return (" ".join(fields["words"]),)
        return (fields["text"],) if "text" in fields else (fields["first"], fields["second"])

    @property
    def words(self) -> list[str]:
        """The words: those given, else what a text falls into, each punctuation mark by itself."""
        return self.fields["words"] if "words" in self.fields else WORD.findall(" ".join(self.parts))

    @property
    def name(self) -> str:
        """It in one line, for the terminal."""
        line = " ".join(" | ".join(self.parts).split())
        return line if len(line) <= 60 else f"{line[:59]}…"


def gather_texts(inputs: Any, text: Text) -> list[TextInput]:
    """The texts of inputs, in order.

    Args:
        inputs: a text, a record with the fields of training (`{"text": ...}`, `{"first": ..., "second": ...}`,
            `{"words": [...]}`; others don't matter), or several of these.
        text: how a checkpoint names the fields.

    Raises:
        UserError: there is none, one is neither text nor record or holds no text, or a record lacks the fields.
    """
    if not isinstance(inputs, Iterable):
        raise UserError(
            "inputs", inputs, f"is of the type {type(inputs).__name__}; must be texts, or records of fields"
        )
    several = [inputs] if isinstance(inputs, str | Mapping) else list(inputs)
    if not several:
        raise UserError("inputs", None, "there is no text")
    return [_as_input(one, number, text) for number, one in enumerate(several, 1)]


def read_texts(file: str | Path) -> list[Any]:
    """What a file holds: of `.jsonl` a record in each line, else (and of `-`, standard input) a text in each line;
    empty lines are left out.

    Raises:
        UserError: it can't be read, or a line isn't JSON.
    """
    lines = read_lines("--input", file)
    if Path(file).suffix.lower() not in JSON_LINES:
        found: list[Any] = [line for line in lines if line.strip()]
    else:
        found = [_parsed(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UserError("--input", file, "holds no text")
    return found


def _parsed(file: str | Path, number: int, line: str) -> Any:
    try:
        return parsed(line)
    except ValueError as error:
        raise UserError("--input", file, f"line {number} {error}") from None


def _as_input(one: Any, number: int, text: Text) -> TextInput:
    if isinstance(one, str):
        if not is_whole(one):
            raise UserError("inputs", ascii(one[:40]), f"text {number} {HALF}")
        return TextInput({"text": one})
    if not isinstance(one, Mapping):
        raise UserError("inputs", type(one).__name__, f"text {number} is neither text nor a record of fields")
    try:
        one = spelling.by_name({name: value for name, value in one.items() if isinstance(name, str)})
    except ValueError as error:
        raise UserError("inputs", None, f"text {number} {error}") from None
    data = build(Data, {**text.fields, "name": "inputs"}, "text.fields")
    for setting, name in asked_for(data, GIVEN).items():
        if name not in one:
            problem = f"text {number} has no field {name!r}, which data.{setting} named in training"
            raise UserError("inputs", ", ".join(map(str, one)), problem)
    own = form_of(one, data, FORMS, GIVEN)
    if own is None:
        forms = "; ".join(" + ".join(form) for form in FORMS[:3])
        raise UserError("inputs", ", ".join(map(str, one)), f"the fields of text {number} are none of: {forms}")
    if several := several_fit(own, one, data):
        raise UserError("inputs", ", ".join(map(str, one)), f"text {number}: {several.partition('; ')[0]}; keep one")
    try:
        found = converter(own)(one)
    except ValueError as error:
        raise UserError("inputs", None, f"text {number}: {error}") from None
    return TextInput(found if {"words", "first"} & set(found) else {"text": next(iter(found.values()))})
