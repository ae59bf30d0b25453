"""Which fields of a record mean what: as the settings name them, else by their usual names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vitzoo import literals, spelling
from vitzoo.data.settings import Data
from vitzoo.data.text.sources.labels import whole_number
from vitzoo.data.text.sources.template import Template, names_of, value_of
from vitzoo.data.text.unicode import HALF, is_whole
from vitzoo.errors import UserError

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
    "answer": ("label_field", ("answer", "label", "gold")),
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
SHOWN = {"turns": "messages", "first": "sentence1", "second": "sentence2"}
"""What messages call a field: the more usual of its names."""
SETTINGS = tuple(dict.fromkeys(setting for setting, _ in USUAL.values() if setting))
GIVEN = ("text_field", "source_field", "first_field", "second_field")
"""Those that name what a model is given."""
USUAL_ONLY = ("prompt", "completion")
"""Fields that a setting doesn't rename: a pair whose fields are named is a source and a target."""


def recognise(record: Mapping[str, Any], data: Data) -> dict[str, str]:
    """Canonical name to the record's own name of each field, for the first form of `FORMS` that the record has.

    Where fields are asked for (`data.*_field`), only forms count that use all of them, and whose values can be read:
    `text_field` names a text, a list of words or a list of turns, by what is there.

    Args:
        record: names and values of the fields.
        data: names fields, and the data in messages.

    Raises:
        UserError: a field that is asked for isn't there or of no use, no form fits, or several fields fit one part of
            the form; what was looked for is said.
    """
    asked = asked_for(data)
    for setting, name in [*asked.items(), *(("template", name) for name in _in_template(data))]:
        if name not in record:
            raise UserError(f"data.{setting}", name, f"no such field in {data.name}; there are: {', '.join(record)}")
    own = form_of(record, data, FORMS)
    if own is not None:
        if several := several_fit(own, record, data):
            raise UserError("data.name", data.name, several)
        return own
    known = "; ".join("+".join(SHOWN.get(field, field) for field in form) for form in FORMS)
    if asked:
        setting, name = next(iter(asked.items()))
        others = "".join(f" and {other}" for other in list(asked)[1:])
        problem = f"{data.name} has the fields {', '.join(record)}, and no form of data uses this{others}: {known}"
        raise UserError(f"data.{setting}", name, problem)
    raise UserError(
        "data.name",
        data.name,
        f"has the fields {', '.join(record)}, which are none of: {known}; say which is which: "
        f"--config.data.text_field={next(iter(record), 'NAME')}, label_field, source_field, target_field ...",
    )


def several_fit(own: Mapping[str, Any], record: Mapping[str, Any], data: Data) -> str:
    """What to say of a record in which several fields have a usual name of one part of its form, and are no other
    part; empty where each part is one field's, or `data.*_field` says which it is.

    Args:
        own: canonical to own names, of the form.
        record: names and values of the fields.
        data: names fields.
    """
    used = {name for one in own.values() for name in names_of(one)}
    for field, name in own.items():
        setting, usual = USUAL[field]
        if isinstance(name, Template) or (setting and field not in USUAL_ONLY and asked_for(data, (setting,))):
            continue
        if others := [other for other in usual if other in record and other not in used]:
            fitting = ", ".join([name, *others])
            other_way = f"name it, --config.data.{setting}={name}" if setting else "join them, data.template"
            return f"several fields fit for {SHOWN.get(field, field)}: {fitting}; keep one, or {other_way}"
    return ""


def asked_for(data: Data, settings: Sequence[str] = SETTINGS) -> dict[str, str]:
    """The fields that settings name, by setting."""
    return {setting: name for setting in settings if (name := spelling.normalise(getattr(data, setting)))}


def form_of(
    record: Mapping[str, Any], data: Data, forms: Sequence[tuple[str, ...]], settings: Sequence[str] = SETTINGS
) -> dict[str, str] | None:
    """Canonical to own names of the form that a record has; None where it has none of `forms`.

    Without settings, names decide. With them the values do too; where none of the forms can be read, it is the least
    particular, and reading it says what is wrong.
    """
    if data.template:
        return _templated(record, data, settings)
    asked = asked_for(data, settings)
    found = [own for form in forms if (own := _own_names(form, record, data)) and _uses(own, asked)]
    if not asked or not found:
        return found[0] if found else None
    readable = [own for own in found if _can_be_read(record, own)]
    return max(readable, key=len) if readable else found[-1]


def _in_template(data: Data) -> tuple[str, ...]:
    try:
        return Template(data.template).names if data.template else ()
    except ValueError as error:
        raise UserError("data.template", data.template, str(error)) from None


def _templated(record: Mapping[str, Any], data: Data, settings: Sequence[str]) -> dict[str, str] | None:
    """The form of a record whose text, source or question is made by `data.template`; None where a field lacks."""
    made = Template(data.template)
    if not set(made.names) <= set(record):
        return None
    asked = asked_for(data, settings)
    if "target_field" in asked:
        return {"source": made, "target": asked["target_field"]}
    if "label_field" in asked:
        return {"text": made, "label": asked["label_field"]}
    for first, second in (("question", "answers"), ("text", "label"), ("source", "target"), ("source", "completion")):
        name = next((name for name in USUAL[second][1] if name in record and name not in made.names), None)
        own = {first: made, second.replace("completion", "target"): name or ""}
        if name is not None and _can_be_read(record, own):
            return own
    return {"text": made}


def _own_names(form: Sequence[str], record: Mapping[str, Any], data: Data) -> dict[str, str] | None:
    """What a record calls the fields of a form; None where it lacks one, or one would be two of them."""
    own: dict[str, str] = {}
    for field in form:
        setting, usual = USUAL[field]
        asked = asked_for(data, (setting,)).get(setting) if setting and field not in USUAL_ONLY else None
        name = asked or next((name for name in usual if name in record), None)
        if name is None or name not in record or name in own.values():
            return None
        own[field] = name
    return own


def _uses(own: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether each field that is asked for is used as what its setting says."""
    used = {(USUAL[field][0], name) for field, name in own.items()}
    return used >= set(asked.items())


def _can_be_read(record: Mapping[str, Any], own: Mapping[str, str]) -> bool:
    try:
        converter(own)(record)
        return True
    except ValueError:
        return False


def converter(own: Mapping[str, str]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """From a record to canonical fields, labels and tags still as they stand. What is of the wrong type, or doesn't go
    together, raises ValueError that names it.
    """

    def convert(record: Mapping[str, Any]) -> dict[str, Any]:
        example = {field: _value(field, value_of(record, name), name) for field, name in own.items()}
        if "tags" in example and len(example["tags"]) != len(example["words"]):
            raise ValueError("words and tags differ in number")
        if "answer" in example and not 0 <= example["answer"] < len(example["choices"]):
            raise ValueError("the answer must be the index of a choice")
        return example

    return convert


def _value(field: str, value: Any, name: str) -> Any:
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


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"field {name!r} must be text")
    if not is_whole(value):
        raise ValueError(f"field {name!r} {HALF}")
    return value


def _index(value: Any) -> int:
    """The number of a choice, which may be written as text."""
    index = literals.counted(value) if isinstance(value, str) else whole_number(value)
    if index is None:
        raise ValueError("the answer must be the index of a choice")
    return index


def answers(value: Any, name: str = "answers") -> list[str]:
    """One answer, several, or SQuAD's {"text": several}, as a list; anything else raises ValueError."""
    value = value.get("text") if isinstance(value, dict) else value
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"field {name!r} must be text, or a list of texts that are all right")
    return [_text(one, name) for one in found]


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
        turns.append({"role": _text(role, name), "text": _text(said, name)})
    return turns
