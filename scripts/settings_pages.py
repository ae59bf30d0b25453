"""The reference of all settings and of the configs that come with vitzoo, as pages of Markdown.

They lie in docs/settings/, and a test says when they are older than the code: python scripts/settings_pages.py
"""

import dataclasses
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vitzoo.config.experiment import Experiment
from vitzoo.config.fields import KINDS, as_flag
from vitzoo.config.files import argument_of, docstring, named_configs
from vitzoo.config.model import USUAL, config_class_of, settings_class
from vitzoo.limits import Limits, limits_of
from vitzoo.registry import PARTS, find
from vitzoo.schema import annotations, default_of, to_json

INTROS = {
    "run": "The settings outside of any section: length, seed, what to start from, and how the work is spread.",
    "model": "The section `model`. `name` picks the model, `variant` one of its published sizes; any other setting of "
    "the model changes that size.",
    "objective": "The section `objective`: what is learned. `name` picks it.",
    "data": "The section `data`: which examples are read, and how.",
    "inputs": "The section `inputs`, with one section for each input of the model: `image` for images, "
    "`tokens` for text.",
    "augment": "The section `augment`: how training images are changed. Evaluation never is.",
    "mixture": "The section `mixture`: several sources of text, for `data.name=mixture`.",
    "optimizer": "The section `optimizer`. `name` picks it.",
    "schedule": "The section `schedule`: the learning rate over time. `name` picks its shape.",
    "evaluate": "The section `evaluate` holds evaluators under names of your choice: "
    "`evaluate.val.name=classification`, `evaluate.val.split=validation`. The settings below stand after that name. "
    "`--config.evaluate.val.name=none` turns one off.",
    "checkpoint": "The section `checkpoint`: when a run is saved, and what is kept. The last step is always saved.",
    "log": "The section `log`: where numbers go, besides the run's `metrics.jsonl`.",
}
"""The pages, in the order of the site, and how each begins."""

HEADER = "| setting | default | values | meaning | on resuming |\n|---|---|---|---|---|"


def pages() -> dict[str, str]:
    """Every page's Markdown by its path below `docs/`: one for each section of a config, and one of all configs."""
    return {f"settings/{name}.md": _page(name) for name in INTROS} | {"settings/shipped.md": _shipped()}


def _page(name: str) -> str:
    body = "\n\n".join(
        (f"## {title}\n\n" if title else "") + (f"{about}\n\n" if about else "") + "\n".join([HEADER, *rows])
        for title, about, rows in _tables(name)
    )
    return f"# {'Run' if name == 'run' else f'Section `{name}`'}\n\n{INTROS[name]}\n\n{LEGEND}\n\n{body}\n"


LEGEND = (
    "Change any of them with `--config.KEY=VALUE`, or in a config file. A setting marked *may change* can be given "
    "another value when a run is resumed; any other one can't, because it would be another training."
)


def _tables(name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Title, introduction and rows of each table of a page."""
    hints = annotations(Experiment)
    if name in PARTS or name in KINDS:
        yield "", "", list(_choices(name))
    if name == "run":
        sections = {*INTROS, "inputs"}
        yield "", "", [_row(field.name, field, hints[field.name]) for field in _fields(Experiment, sections)]
    elif name == "model":
        for model in PARTS["model"]:
            yield model, f"`model.name={model}`", list(_rows(config_class_of(model), "model", _also(Experiment, name)))
    elif name == "inputs":
        for kind, input in USUAL.items():
            yield (
                f"inputs.{input}",
                f"An input of the kind `{kind}`.",
                list(_rows(settings_class(input, kind), f"inputs.{input}", _also(Experiment, name))),
            )
    elif name in KINDS:
        place = "evaluate.NAME" if name == "evaluate" else name
        for part in PARTS[KINDS[name]]:
            cls = find(KINDS[name], part)
            yield part, f"`{place}.name={part}`: {_summary(cls)}", list(_rows(cls, place, _also(Experiment, name)))
    else:
        yield "", "", list(_rows(hints[name], name, _also(Experiment, name)))


def _choices(name: str) -> Iterator[str]:
    """The rows of the settings that say which part a section holds."""
    place, kind = ("evaluate.NAME", "evaluator") if name == "evaluate" else (name, name)
    known = ", ".join(_code(part) for part in PARTS[kind])
    changes = "may change" if _also(Experiment, name) else ""
    yield f"| `{place}.name` | | {known}, or your own `MODULE:CLASS` | which {kind} | {changes} |"
    if name == "model":
        yield "| `model.variant` | | text | a published size of the model: `vitzoo models` lists them | |"


def _also(cls: type, name: str) -> bool:
    """Whether a whole section may change when a run is resumed."""
    return next(limits_of(field).execution for field in dataclasses.fields(cls) if field.name == name)


def _fields(cls: type, left_out: Iterable[str] = ()) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(cls) if field.init and field.name not in left_out]


def _rows(cls: type, place: str, may_change: bool) -> Iterator[str]:
    """A row for each setting of a section, and for those of the sections within it."""
    for field in _fields(cls):
        hint, inside = annotations(cls)[field.name], f"{place}.{field.name}"
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _rows(hint, inside, may_change or limits_of(field).execution)
        else:
            yield _row(inside, field, hint, may_change)


def _row(name: str, field: dataclasses.Field, hint: Any, may_change: bool = False) -> str:
    limits = limits_of(field)
    default = default_of(field)
    shown = "must be set" if default is dataclasses.MISSING else _code(_default(default))
    help = limits.help + (f"; needs {limits.needs[0].format(section=name.rpartition('.')[0])}" if limits.needs else "")
    changes = "may change" if may_change or limits.execution else ""
    return f"| `{name}` | {shown} | {_cell(values_in_words(hint, limits))} | {_cell(help)} | {changes} |"


def _default(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{as_flag(item)}" for key, item in value.items())
    return as_flag(to_json(value))


def values_in_words(hint: Any, limits: Limits) -> str:
    """What a setting may be: `whole number, at least 1`; `one of a, b`."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    words = [_kind(one, limits) for one in members if one is not type(None)]
    bounds = _bounds(limits)
    return " or ".join(dict.fromkeys(words)) + (f", {bounds}" if bounds else "") + " or none" * (type(None) in members)


def _kind(hint: Any, limits: Limits) -> str:
    if limits.choices is not None and hint is str:
        return ", ".join(_code(one) if one else "empty" for one in limits.choices)
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(_code(str(one)) for one in typing.get_args(hint))
    plain = {bool: "true, false", int: "whole number", float: "number", str: "text", Any: "anything"}
    if hint in plain:
        return plain[hint]
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        if limits.form:
            return _code(limits.form)
        return "list `A,B,...`" if arguments and arguments[-1] is Ellipsis else f"{len(arguments)} values `A,B`"
    return (
        "`KEY:VALUE,...`"
        if (typing.get_origin(hint) or hint) in (dict, Mapping)
        else getattr(hint, "__name__", str(hint))
    )


def _bounds(limits: Limits) -> str:
    bounds = {"at least": limits.minimum, "above": limits.above, "at most": limits.maximum, "below": limits.below}
    return " and ".join(
        f"{word} {bound:g}" if abs(bound) < 1e6 else f"{word} {bound:,.0f}"
        for word, bound in bounds.items()
        if bound is not None
    )


def _summary(cls: type) -> str:
    return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())


def _cell(text: str) -> str:
    """Text in a cell of a table; whatever would end the cell or be read as a tag is written so that it isn't."""
    outside = text.replace("|", "\\|").split("`")
    outside[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") for part in outside[::2]]
    return "`".join(outside)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|").replace("\n", "\\n") if text else ""


def _shipped() -> str:
    """The page of the configs: what the docstring of each says."""
    found = [(name, docstring(path).strip(), str(argument_of(path))) for name, path in named_configs()]
    parts = [
        f"## {name}\n\n```text\n{about}\n```" + (f"\n\nArgument: `{argument}`" if argument else "")
        for name, about, argument in found
    ]
    intro = (
        "# Configs that come with vitzoo\n\n`vitzoo configs` lists them, and `vitzoo configs NAME` prints every "
        "setting of one with its value. What stands behind "
        "the colon of a name, `vit/imagenet:S/16`, is the config's argument."
    )
    return "\n\n".join([intro, *parts]) + "\n"


def main() -> None:
    """Writes the pages into docs/, or the folder that the command line names."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs"
    for name, text in pages().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
