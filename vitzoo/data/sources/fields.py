"""Which fields of a record mean what: as the settings name them, else by their usual names."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from vitzoo import spelling
from vitzoo.data.image_files import is_image
from vitzoo.data.settings import Data
from vitzoo.data.sources.values import Template, converter, names_of
from vitzoo.errors import UserError
from vitzoo.strict_json import JSON

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
IMAGE_NAMES = (
    "file",
    "filename",
    "file_name",
    "filepath",
    "file_path",
    "path",
    "image",
    "image_path",
    "img",
    "image_file",
)
"""Usual names of the field that names an image's file."""
LABEL_NAMES = ("label", "class", "category", "target", "labels", "classes", "categories", "tags", "tag", "class_name")
"""Those of an image's label."""
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
LISTED = 20  # names that a message lists
SETTINGS = tuple(dict.fromkeys(setting for setting, _ in USUAL.values() if setting))
GIVEN = ("text_field", "source_field", "first_field", "second_field")
"""Those that name what a model is given."""
USUAL_ONLY = ("prompt", "completion")
"""Fields that a setting doesn't rename: a pair whose fields are named is a source and a target."""


def recognise(record: Mapping[str, JSON], data: Data, forms: Sequence[tuple[str, ...]] = FORMS) -> dict[str, str]:
    """Canonical name to the record's own name of each field, for the first form of several that the record has; or of
    images, where one field names a file of an image.

    Where fields are asked for (`data.*_field`), only forms count that use all of them, and whose values can be read:
    `text_field` names a text, a list of words or a list of turns, by what is there.

    Args:
        record: names and values of the fields.
        data: names fields, and the data in messages.
        forms: the most particular first.

    Raises:
        UserError: a field that is asked for isn't there or of no use, no form fits, or several fields fit one part of
            the form; what was looked for is said.
    """
    asked = asked_for(data)
    for setting, name in [*asked.items(), *(("template", name) for name in _in_template(data))]:
        stated_field(record, setting, data, name=name)
    if (image := image_field(record, data)) is not None:
        return _of_image(image, record, data)
    own = form_of(record, data, forms)
    if own is not None:
        if several := several_fit(own, record, data):
            raise UserError("data.name", data.name, several)
        return own
    known = "; ".join("+".join(SHOWN.get(field, field) for field in form) for form in forms)
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


def stated_field(record: Iterable[str], setting: str, data: Data, thing: str = "field", name: str = "") -> str:
    """The field that a setting of `data` names, or `name` if it names several."""
    name = spelling.normalise(name or getattr(data, setting))
    if name not in record:
        where = f" in {data.name}" if thing == "field" else ""
        raise UserError(f"data.{setting}", name, f"no such {thing}{where}; there are: {listed(record)}")
    return name


def listed(names: Iterable[str]) -> str:
    """The first of some names."""
    names = list(names)
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED:,} more" if len(names) > LISTED else "")


def usual_field(
    record: Iterable[str], setting: str, usual: Collection[str], data: Data, thing: str = "field"
) -> str | None:
    """The field that a setting names, else the one that has a usual name, in whatever case."""
    if getattr(data, setting):
        return stated_field(record, setting, data, thing)
    found = [name for name in record if name.lower() in usual]
    if len(found) > 1:
        problem = f"name a {thing}, several {thing}s fit; {thing}s: {listed(record)}"
        raise UserError(f"data.{setting}", None, problem)
    return found[0] if found else None


def image_field(record: Mapping[str, JSON], data: Data, thing: str = "field") -> str | None:
    """The field that names the file of an image: as is stated, else one with a usual name and an image's ending. None
    where there is none, or where settings say that the record is one of texts.
    """
    others = [setting for setting in asked_for(data) if setting not in ("text_field", "label_field")]
    if data.image_field and others:
        problem = "has no effect with image_field: an image has a text, a label or both"
        raise UserError(f"data.{others[0]}", getattr(data, others[0]), problem)
    if others or (data.template and not data.image_field):
        return None
    named = [name for name, value in record.items() if isinstance(value, str) and is_image(value.strip())]
    return usual_field(record if data.image_field else named, "image_field", IMAGE_NAMES, data, thing)


def image_text(record: Iterable[str], data: Data, thing: str = "field") -> str | None:
    """The text that belongs to an image; None where there is none."""
    if not data.template:
        return usual_field(record, "text_field", USUAL["text"][1], data, thing)
    for name in _in_template(data):
        stated_field(record, "template", data, thing, name)
    return Template(data.template)


def _of_image(image: str, record: Mapping[str, JSON], data: Data) -> dict[str, str]:
    """The fields of an image with a text, a label or both."""
    rest = [name for name in record if name != image]
    own = {"image": image, "text": image_text(rest, data)}
    own["label"] = usual_field([name for name in rest if name != own["text"]], "label_field", LABEL_NAMES, data)
    found = {field: name for field, name in own.items() if name is not None}
    if len(found) == 1:
        problem = f"has the fields {', '.join(record)}: images in {image}, and neither label nor text"
        raise UserError("data.name", data.name, f"{problem}; name one: --config.data.label_field=NAME or text_field")
    return found


def several_fit(own: Mapping[str, str], record: Mapping[str, JSON], data: Data) -> str:
    """What to say of a record in which several fields have a usual name of one part of its form, and are no other
    part; empty where each part is one field's, or `data.*_field` says which it is.

    Args:
        own: canonical to own names, of the form.
        record: names and values of the fields.
        data: names fields.
    """
    if "image" in own:
        return ""
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
    record: Mapping[str, JSON], data: Data, forms: Sequence[tuple[str, ...]], settings: Sequence[str] = SETTINGS
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


def _templated(record: Mapping[str, JSON], data: Data, settings: Sequence[str]) -> dict[str, str] | None:
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


def _own_names(form: Sequence[str], record: Mapping[str, JSON], data: Data) -> dict[str, str] | None:
    """What a record calls the fields of a form; None where it lacks one, or one would be two of them."""
    own: dict[str, str] = {}
    for field in form:
        setting, usual = USUAL[field]
        asked = asked_for(data, (setting,)).get(setting) if setting and field not in USUAL_ONLY else None
        name = asked or _usual_name(usual, record)
        if name is None or name not in record or name in own.values():
            return None
        own[field] = name
    return own


def _usual_name(usual: Sequence[str], record: Mapping[str, JSON]) -> str | None:
    """The first of the usual names that a record has, in whatever case where none is written so."""
    if (name := next((name for name in usual if name in record), None)) is not None:
        return name
    lower = {name.lower(): name for name in record}
    return next((lower[name] for name in usual if name in lower), None)


def _uses(own: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether each field that is asked for is used as what its setting says."""
    used = {(USUAL[field][0], name) for field, name in own.items()}
    return used >= set(asked.items())


def _can_be_read(record: Mapping[str, JSON], own: Mapping[str, str]) -> bool:
    try:
        converter(own)(record)
        return True
    except ValueError:
        return False
