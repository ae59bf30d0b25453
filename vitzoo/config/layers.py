"""What is stated of a config, in plain values with who stated them, the file or the flags that override it; and what of
that has no effect, which is refused from a flag and said of a file.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from vitzoo.data.effect import ACTS, kind_of, without_effect
from vitzoo.data.text.row_kinds import kind_of as kind_of_model
from vitzoo.errors import UserError
from vitzoo.limits import limits_of
from vitzoo.literals import FlagText, plain
from vitzoo.schema import WithKinds, convert_fields, default_of

Overrides = Iterable[str] | Mapping[str, Any]

DEFAULT_NAMES = {"objective": "classification", "optimizer": "adamw", "schedule": "cosine"}
Built = Mapping[str, Any]
"""The sections of an experiment, by name."""

WITH_NEEDS = ("augment", "schedule", "log", "objective", "optimizer", "data", "mixture", "checkpoint")
"""Sections whose settings may need another (`setting(needs=...)`), besides the inputs and the model."""

_DURATION = re.compile(r"(.*)_(steps|epochs|examples|fraction)")


class Required(str):
    """Text in the place of a value that must be given: its form, `RUN`."""


@dataclasses.dataclass
class Layers:
    """What the file states and what the flags override, both nested dicts; and what had to be said in merging them."""

    file: dict[str, Any]
    flags: dict[str, Any]
    inherited: Mapping[str, set[str]]
    """By section, the fields that the file states for a choice of `name` which it then replaced."""
    argument: bool = False
    """Whether the file was given its argument, such as a variant, and not left at its default."""
    notes: list[str] = dataclasses.field(default_factory=list)

    def section(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The two layers of a section (`evaluate.val` is one), each a dict to be changed in place."""
        return _at(self.file, name), _at(self.flags, name)

    def merged(self, name: str) -> dict[str, Any]:
        """What both layers state of a section."""
        return merge(*self.section(name))

    def replace_durations(self, name: str) -> None:
        """A flag for one of `every_steps`, `every_epochs` ... replaces the file's other one."""
        file, flags = self.section(name) if name else (self.file, self.flags)
        for key in [key for key in file if file[key] is not None]:
            stem = _DURATION.fullmatch(key)
            rivals = [flag for flag in flags if stem and flag != key and _same_duration(stem[1], flag, flags[flag])]
            if rivals:
                prefix = f"{name}." if name else ""
                self.notes.append(f"{prefix}{rivals[0]} replaces {prefix}{key} = {file.pop(key)}")

    def drop_others(self, name: str, part: type) -> None:
        """Leaves out what the file states for another choice of `name`, where the one made, `part`, has no use for it:
        it lacks the field, or can't hold the value.
        """
        file, flags = self.section(name)
        replaced = "name" in flags and flags["name"] != file.get("name", DEFAULT_NAMES.get(name))
        others = set(file) - {"name", "variant"} if replaced else self.inherited.get(name, set())
        dropped = [key for key in file if key in others and not _takes(part, key, file[key])]
        self._drop(name, f"name = {flags.get('name', file.get('name'))}", dropped)

    def drop_of_other_kinds(self, section: str, part: type[WithKinds]) -> None:
        """Leaves out what the file states of a section such as `inputs.tokens.tokenizer`, `part`, and the `kind` that
        is made has no use for.
        """
        file, flags = self.section(section)
        fields = part.__dataclass_fields__  # type: ignore[attr-defined]
        before = file.get("kind", default_of(fields["kind"]))
        unused = part.unused(flags.get("kind", before), before)
        stated = [key for key in file if key in unused and file[key] != default_of(fields[key])]
        convert_fields(part, {key: file[key] for key in stated}, section)  # refuses what is wrong in any kind
        self._drop(section, f"kind = {flags.get('kind', before)}", stated)

    def _drop(self, section: str, chosen: str, fields: list[str]) -> None:
        file, _ = self.section(section)
        if fields:
            listed = ", ".join(f"{section}.{key} = {_shown(file.pop(key))}" for key in fields)
            self.notes.append(f"{section}.{chosen} has no use for {listed}: left out")

    def source(self, path: tuple[str, ...], variant: Mapping[str, Any]) -> str:
        """Which layer the value at `path` comes from: `flag`, `file`, `variant` or `default`."""
        if _holds(self.flags, path):
            return "flag"
        if _holds(self.file, path):
            return "file"
        return "variant" if path[0] == "model" and path[1] in variant else "default"

    def refuse_missing(self) -> None:
        """Refuses a config of whose required values the flags leave some out, all of them named."""
        missing = _missing(self.file, self.flags, "")
        if missing:
            named = sorted(missing.items(), key=lambda item: "." in item[0])
            to_give = " ".join(f"--config.{name}={form}" for name, form in named)
            raise UserError(named[0][0], None, f"must be given: {to_give}")


def _same_duration(stem: str, flag: str, value: Any) -> bool:
    match = _DURATION.fullmatch(flag)
    off = value is None or str(value).lower() in ("none", "0", "0.0")
    return match is not None and match[1] == stem and not off


def _takes(part: type, key: str, value: Any) -> bool:
    try:
        convert_fields(part, {key: value})
    except UserError:
        return False
    return True


def _shown(value: Any) -> Any:
    return "''" if value == "" else value


def _at(layer: dict[str, Any], name: str) -> dict[str, Any]:
    for part in name.split("."):
        layer = layer.setdefault(part, {})
        if not isinstance(layer, dict):
            raise UserError(name, layer, "is a section: set one of its fields")
    return layer


def _holds(layer: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(layer, dict):
            return True
        if part not in layer:
            return False
        layer = layer[part]
    return True


def _missing(file: Mapping[str, Any], flags: Any, prefix: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in file.items():
        given = flags.get(key) if isinstance(flags, Mapping) else None
        if isinstance(value, Mapping):
            found |= _missing(value, given or {}, f"{prefix}{key}.")
        elif isinstance(value, Required) and given is None:
            found[f"{prefix}{key}"] = str(value)
    return found


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Both, `high` over `low`, dicts within them merged too."""
    merged = dict(low)
    for key, value in high.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Nested dicts as one: path to value. An empty dict is a value."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= leaves(value, (*path, key))
        else:
            found[(*path, key)] = value
    return found


def listed(overrides: Any) -> Mapping[str, Any] | list[str]:
    """Overrides as they may be given: by name, or a list of texts.

    Raises:
        UserError: they are neither.
    """
    if isinstance(overrides, Mapping):
        return overrides
    if isinstance(overrides, Iterable) and not isinstance(overrides, str | bytes):
        texts = list(overrides)
        if all(isinstance(one, str) for one in texts):
            return texts
    message = 'must be a dict, {"optimizer.learning_rate": 3e-4}, or a list, ["optimizer.learning_rate=3e-4"]'
    raise UserError("overrides", overrides, message)


def nested(overrides: Overrides) -> dict[str, Any]:
    """Overrides as nested dicts; `KEY=VALUE` texts keep their values as `FlagText`, to be read by the field's type."""
    layer: dict[str, Any] = {}
    overrides = listed(overrides)
    if isinstance(overrides, Mapping):
        pairs = list(plain(overrides).items())
    else:
        pairs = [_split(text) for text in overrides]
    for key, value in pairs:
        *sections, field = key.split(".")
        place = layer
        for depth, section in enumerate(sections):
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise UserError(".".join(sections[: depth + 1]), place, f"is given as a whole and in part ({key})")
        place[field] = value
    return layer


def _split(text: str) -> tuple[str, FlagText]:
    key, equals, value = text.removeprefix("--").removeprefix("config.").partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(key or text, None, "an override is written KEY=VALUE")
    return key, FlagText(value)


def say_without_effect(layers: Layers, built: Built) -> None:
    """Looks at the sections that say how data are read.

    Args:
        layers: what is stated; their notes get a line for each setting of the file that does nothing, for each of how a
            run is executed, and for each flag that acts only with another setting, which is off.
        built: the sections as they were built.

    Raises:
        UserError: a flag states a setting that acts on none of the data which the experiment reads.
    """
    inputs = {f"inputs.{name}": one for name, one in built["inputs"].items()}
    kinds = [kind_of(name, text=any(one.FIELD == "text" for one in inputs.values())) for name in _names(built)]
    for section, part in {"data": built["data"], **inputs}.items():
        acts = ACTS if section == "data" else part.DATA
        for layer, is_flag in ((layers.file, False), (layers.flags, True)):
            for field in _changed(_stated(layer, section), part):
                name, value, why = f"{section}.{field}", getattr(part, field), without_effect(acts.get(field), kinds)
                if why and is_flag and not limits_of(part.__dataclass_fields__[field]).execution:
                    raise UserError(name, value, why)
                if why:
                    layers.notes.append(f"{name} = {value} {why}")
    model = built["model"]
    kind = kind_of_model(model.config_class) if model.name else None
    for section, part in inputs.items():
        part.check_model(section, _changed(_stated(layers.flags, section), part), model.name, kind)
    _note_needs(layers, built, inputs)
    if built["data"].name != "mixture":
        for field in _changed(layers.flags.get("mixture"), built["mixture"]):
            if field != "sources":
                message = "has no effect on a single dataset; it is for data.name=mixture"
                raise UserError(f"mixture.{field}", getattr(built["mixture"], field), message)


def _note_needs(layers: Layers, built: Built, inputs: Mapping[str, Any]) -> None:
    """Tells of each flag that acts only with another setting, which is off."""
    sections = {name: built[name] for name in WITH_NEEDS}
    if not (layers.flags.get("init_from") or layers.file.get("init_from")):  # a checkpoint fills these
        sections |= inputs
        if (model := built["model"]).name:
            sections["model"] = SimpleNamespace(**model.values, __dataclass_fields__=_fields(model.config_class))
    for section, part in sections.items():
        for field in _changed(_stated(layers.flags, section), part):
            needs = limits_of(_fields(part)[field]).needs
            if needs is not None and not needs[1](part):
                other = needs[0].format(section=section)
                layers.notes.append(f"{section}.{field} = {getattr(part, field)} has no effect without {other}")


def _fields(part: Any) -> Mapping[str, Any]:
    return part.__dataclass_fields__


def _stated(layer: Mapping[str, Any], section: str) -> Any:
    """What a layer states in a section, `inputs.tokens`."""
    found: Any = layer
    for name in section.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _names(built: Built) -> list[str]:
    """The names of all data that are read: in training, by evaluators, in a mixture."""
    patches = [getattr(evaluator, "data", None) for evaluator in built["evaluate"].values()]
    patches += list(built["mixture"].sources.values()) if built["data"].name == "mixture" else []
    others = [patch.get("name") for patch in patches if isinstance(patch, Mapping)]
    return list(dict.fromkeys([built["data"].name, *(str(name) for name in others if name)]))


def _changed(stated: Any, part: Any) -> list[str]:
    """The settings of a section that a layer states, and states otherwise than they are by default."""
    if not isinstance(stated, Mapping):
        return []
    fields = _fields(part)
    return [field for field in stated if field in fields and getattr(part, field) != default_of(fields[field])]
