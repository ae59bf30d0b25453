"""Which fields of a record mean what: as the settings name them, else by their usual names."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from vitzoo.data.text.settings import Text
from vitzoo.errors import Refused

# canonical name: (setting that names the field, usual names)
USUAL: dict[str, tuple[str, tuple[str, ...]]] = {
    "text": ("text_field", ("text", "sentence", "content", "document")),
    "label": ("label_field", ("label", "class", "category", "target")),
    "prompt": ("source_field", ("prompt", "instruction")),
    "completion": ("target_field", ("completion", "response")),
    "source": ("source_field", ("source", "input", "src")),
    "target": ("target_field", ("target", "output", "tgt")),
    "first": ("first_field", ("first", "sentence1", "premise", "question1", "text1")),
    "second": ("second_field", ("second", "sentence2", "hypothesis", "question2", "text2")),
    "turns": ("text_field", ("turns", "messages", "conversation", "conversations")),
    "words": ("text_field", ("words", "tokens")),
    "tags": ("label_field", ("tags", "labels", "ner_tags", "pos_tags")),
    "question": ("", ("question", "context", "ctx")),
    "choices": ("", ("choices", "endings", "options")),
    "answer": ("", ("answer", "label", "gold")),
    "answers": ("", ("answers", "answer")),
    "passage": ("", ("passage", "context")),
}
# from the most particular to the least
FORMS = (
    ("turns",),
    ("question", "choices", "answer"),
    ("words", "tags"),
    ("first", "second", "label"),
    ("prompt", "completion"),
    ("source", "target"),
    ("text", "label"),
    ("first", "second"),
    ("text",),
    ("passage", "question", "answers"),
    ("question", "answers"),
)


def recognise(names: Collection[str], text: Text, data_name: str) -> dict[str, str]:
    """Canonical name to the record's own name of each field, for the first form of `FORMS` that the record has.

    Raises:
        Refused: no form fits; what was looked for is said.
    """
    for setting in ("text_field", "label_field", "source_field", "target_field", "first_field", "second_field"):
        asked = getattr(text, setting)
        if asked and asked not in names:
            raise Refused(f"text.{setting}", asked, f"no such field in {data_name}; there are: {', '.join(names)}")
    for form in FORMS:
        found = {field: own_name(field, names, text) for field in form}
        if all(found.values()) and len(set(found.values())) == len(found):
            return {field: own for field, own in found.items() if own}
    known = "; ".join("+".join(form) for form in FORMS)
    raise Refused(
        "data.name", data_name, f"unknown fields {', '.join(names)}; wanted one of: {known} (or text.*_field)"
    )


def own_name(field: str, names: Collection[str], text: Text) -> str | None:
    """What a record calls a canonical field; None where it has none."""
    setting, usual = USUAL[field]
    asked = getattr(text, setting) if setting else ""
    if asked and field not in ("prompt", "completion", "turns", "words", "tags"):
        return asked
    return next((name for name in usual if name in names), None)


def converter(own: Mapping[str, str]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """From a record to canonical fields, labels still as they stand. A wrong type raises ValueError that names it."""

    def convert(record: Mapping[str, Any]) -> dict[str, Any]:
        return {field: _value(field, record[name], name) for field, name in own.items()}

    return convert


def _value(field: str, value: Any, name: str) -> Any:
    if field in ("label", "answer"):
        return value
    if field == "turns":
        return _turns(value, name)
    if field == "answers":
        return _answers(value, name)
    if field in ("words", "choices", "tags"):
        if not isinstance(value, list) or (field != "tags" and not all(isinstance(item, str) for item in value)):
            raise ValueError(f"field {name!r} must be a list of strings")
        return value
    if not isinstance(value, str):
        raise ValueError(f"field {name!r} must be text")
    return value


def _answers(value: Any, name: str) -> list[str]:
    """One answer, several, or SQuAD's {"text": several}."""
    value = value.get("text") if isinstance(value, dict) else value
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"field {name!r} must be text, or a list of texts that are all right")
    return found


def _turns(value: Any, name: str) -> list[dict[str, str]]:
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
        turns.append({"role": role, "text": said})
    return turns
