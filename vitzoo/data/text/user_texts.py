"""Texts, pairs and words that a user gives to be predicted, in memory or in a file."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from vitzoo import spelling
from vitzoo.data.image_files import IMAGE_ENDINGS
from vitzoo.data.settings import Data
from vitzoo.data.sources.fields import GIVEN, asked_for, form_of, several_fit
from vitzoo.data.sources.values import converter
from vitzoo.data.text.lines import HALF, STANDARD_INPUT, is_whole, read_lines
from vitzoo.data.text.settings import Text
from vitzoo.data.user_inputs import Input, Value, Values, several
from vitzoo.errors import UserError
from vitzoo.paths import expanded
from vitzoo.schema import build
from vitzoo.strict_json import JSON, parsed

FORMS = (("words",), ("first", "second"), ("text",), ("prompt",), ("source",))
JSON_LINES = (".jsonl", ".ndjson")
ENDINGS = {".txt", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".md", *IMAGE_ENDINGS}
"""Of what is taken for the name of a file."""
WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")


class TextInput(Input):
    """One text (`text`), pair (`first`, `second`) or list of `words`, in its `fields`."""

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

    @property
    def content(self) -> str:
        """The text, or both of a pair in a line each."""
        return "\n".join(self.parts)


def gather_texts(inputs: Values, text: Text) -> list[TextInput]:
    """The texts of inputs, in order.

    Args:
        inputs: a text, a record with the fields of training (`{"text": ...}`, `{"first": ..., "second": ...}`,
            `{"words": [...]}`; others don't matter), or several of these.
        text: how a checkpoint names the fields.

    Raises:
        UserError: there is none, one is neither text nor record or holds no text, a record lacks the fields, or one is
            a single text where the training's were pairs, or the reverse.
    """
    found = [_as_input(one, number, text) for number, one in enumerate(several(inputs), 1)]
    if not found:
        raise UserError("inputs", None, "there is no text")
    for number, one in enumerate(found, 1):
        if text.paired not in (None, len(one.parts) == 2):
            wanted = "pairs: --input FILE.jsonl with both texts of each" if text.paired else "single texts"
            problem = f"text {number} is {'a single text' if text.paired else 'a pair'}, and the model was trained on"
            raise UserError("inputs", one.name, f"{problem} {wanted}")
    return found


def refuse_files(inputs: Values, *, typed: bool) -> None:
    """Refuses files where texts are wanted.

    Args:
        inputs: as for `gather_texts`.
        typed: they stand on a command line, where what looks like the name of a file must be one.

    Raises:
        UserError: one is a file; or `typed`, has no spaces and has a separator of folders or an ending of files, or is
            `-`.
    """
    for one in several(inputs):
        if isinstance(one, str | os.PathLike) and _is_there(one):
            raise UserError("inputs", one, "is a file; --input reads texts from it, and --text takes it as text")
        if typed and isinstance(one, str) and _is_like_a_name(one):
            problem = "--input - reads texts from standard input" if one == STANDARD_INPUT else "no such file"
            raise UserError("inputs", one, f"{problem}; --text takes it as text")


def _is_like_a_name(text: str) -> bool:
    if text == STANDARD_INPUT:
        return True
    return not re.search(r"\s", text) and ("/" in text or os.sep in text or Path(text).suffix.lower() in ENDINGS)


def _is_there(path: str | os.PathLike) -> bool:
    try:
        return expanded(path).exists()
    except (OSError, ValueError, RuntimeError):  # too long for a name, or with characters that no name has
        return False


def read_texts(file: str | Path) -> list[JSON]:
    """What a file holds: of `.jsonl` a record in each line, else (and of `-`, standard input) a text in each line;
    empty lines are left out.

    Raises:
        UserError: it can't be read, or a line isn't JSON.
    """
    lines = read_lines("--input", file)
    if Path(file).suffix.lower() not in JSON_LINES:
        found: list[JSON] = [line for line in lines if line.strip()]
    else:
        found = [_parsed(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UserError("--input", file, "holds no text")
    return found


def _parsed(file: str | Path, number: int, line: str) -> JSON:
    try:
        return parsed(line)
    except ValueError as error:
        raise UserError("--input", file, f"line {number} {error}") from None


def _as_input(one: Value, number: int, text: Text) -> TextInput:
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
    if problem := several_fit(own, one, data):
        raise UserError("inputs", ", ".join(map(str, one)), f"text {number}: {problem.partition('; ')[0]}; keep one")
    try:
        found = converter(own)(one)
    except ValueError as error:
        raise UserError("inputs", None, f"text {number}: {error}") from None
    return TextInput(found if {"words", "first"} & set(found) else {"text": next(iter(found.values()))})
