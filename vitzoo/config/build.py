"""From what a file states and what flags override to the parts of an experiment, section by section.

Layers, later wins: the dataclass's defaults, the model's variant, the file, the flags.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from vitzoo.config.argument import Required
from vitzoo.config.contracts import check_part
from vitzoo.config.effect import say_without_effect
from vitzoo.config.experiment import (
    CHOICES,
    Experiment,
    ModelChoice,
    config_class_of,
    evaluation_data,
    unused_sections,
    variant_fields,
    variant_values,
)
from vitzoo.config.inputs import USUAL, input_kinds, settings_class
from vitzoo.config.names import KINDS, nearest_setting
from vitzoo.data.folders import absolute_places
from vitzoo.data.settings import Data
from vitzoo.data.text.mixed_source import settings_of
from vitzoo.data.text.settings import USED_BY, Tokenizer
from vitzoo.data.text.settings import Text as TextSettings
from vitzoo.errors import UserError
from vitzoo.literals import FlagText, literal
from vitzoo.registry import PARTS, find
from vitzoo.schema import annotations, build, convert, convert_fields, default_of, patch, to_json
from vitzoo.spelling import nearest

DEFAULT_NAMES = {"objective": "classification", "optimizer": "adamw", "schedule": "cosine"}
_DURATION = re.compile(r"(.*)_(steps|epochs|examples|fraction)")


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

    def drop_of_other_tokenizers(self, section: str) -> None:
        """Leaves out what the file states of a tokenizer and the kind that is made has no use for.

        Args:
            section: that of the tokenizer, `inputs.tokens.tokenizer`.
        """
        file, flags = self.section(section)
        before = file.get("kind", default_of(Tokenizer.__dataclass_fields__["kind"]))
        kind = flags.get("kind", before)
        unused = [field for field, kinds in USED_BY.items() if kind not in kinds]
        if kind == before:
            unused = [field for field in unused if field not in ("file", "special")]  # those contradict it: refused
        elif kind == "file":
            unused.append("lowercase")  # a published one knows whether its text is lowered
        stated = [key for key in file if key in unused and file[key] != default_of(Tokenizer.__dataclass_fields__[key])]
        convert_fields(Tokenizer, {key: file[key] for key in stated}, section)  # refuses what is wrong in any kind
        self._drop(section, f"kind = {kind}", stated)

    def _drop(self, section: str, chosen: str, fields: list[str]) -> None:
        file, _ = self.section(section)
        if fields:
            listed = ", ".join(f"{section}.{key} = {_shown(file.pop(key))}" for key in fields)
            self.notes.append(f"{section}.{chosen} has no use for {listed}: left out")

    def source(self, path: list[str], variant: Mapping[str, Any]) -> str:
        """Which layer the value at `path` comes from: `flag`, `file`, `variant` or `default`."""
        if _holds(self.flags, path):
            return "flag"
        if _holds(self.file, path):
            return "file"
        return "variant" if path[0] == "model" and path[1] in variant else "default"


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


def _holds(layer: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(layer, dict):
            return True
        if part not in layer:
            return False
        layer = layer[part]
    return True


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Both, `high` over `low`, dicts within them merged too."""
    merged = dict(low)
    for key, value in high.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def build_experiment(layers: Layers) -> tuple[Experiment, dict[str, Any]]:
    """The experiment, checked, and the names of the parts that were chosen (`evaluate`: by evaluator)."""
    _refuse_unknown(layers)
    _make_places_absolute(layers)
    layers.replace_durations("")
    hints = annotations(Experiment)
    built: dict[str, Any] = {}
    names: dict[str, Any] = {}
    for section in ("model", *CHOICES):
        if section == "model":
            built[section] = _model(layers)
        else:
            names[section], built[section] = _choice(layers, section, section)
    built["model"].check_takes(built["objective"])
    kinds = input_kinds(built["model"].name, built["objective"])
    classes = {name: settings_class(name, kind) for name, kind in kinds.items()}
    built["inputs"] = _inputs(layers, built["model"].name, classes)
    text = next((one for one in built["inputs"].values() if isinstance(one, TextSettings)), TextSettings())
    _convert_patch(layers, "mixture", "sources", _sources_of_mixture)
    for name, hint in hints.items():
        if dataclasses.is_dataclass(hint) and name not in built:
            layers.replace_durations(name)
            built[name] = build(hint, merge(*layers.section(name)), name)  # type: ignore[arg-type, type-var]
    for name, own in built["mixture"].sources.items():
        settings_of(own, built["data"], text, f"mixture.sources.{name}")
    _refuse_unused(layers, built, kinds)
    built["evaluate"], names["evaluate"] = _evaluators(layers, built["data"], built["inputs"])
    say_without_effect(layers.file, layers.flags, layers.notes, built)
    built["model"].check_measured(built["objective"], built["evaluate"], names["evaluate"])
    scalars = merge(
        {key: value for key, value in layers.file.items() if key not in built},
        {key: value for key, value in layers.flags.items() if key not in built},
    )
    return build(Experiment, {**scalars, **built}), names


def _refuse_unknown(layers: Layers) -> None:
    hints = annotations(Experiment)
    for layer in (layers.flags, layers.file):
        for key in layer:
            if key not in hints:
                near = nearest_setting(key, _chosen(layers))
                hint = f"did you mean {near}?" if near else f"known: {', '.join(hints)}"
                raise UserError(key, layer[key], f"no such setting; {hint}")


def _make_places_absolute(layers: Layers) -> None:
    """A run is evaluated and resumed from any folder, so the paths of its data don't depend on this one."""
    for layer in (layers.file, layers.flags):
        evaluators, mixture = layer.get("evaluate"), layer.get("mixture")
        sections = [layer.get("data")]
        sections += [part.get("data") for part in _values(evaluators) if isinstance(part, dict)]
        sections += _values(mixture.get("sources") if isinstance(mixture, dict) else None)
        for section in sections:
            if isinstance(section, dict) and not isinstance(section.get("name"), Required):
                section.update(absolute_places(section))


def _values(section: Any) -> list[Any]:
    return list(section.values()) if isinstance(section, dict) else []


def _chosen(layers: Layers) -> dict[str, list[type]]:
    """The dataclass of settings of each part that the config names."""
    parts: dict[str, list[type]] = {}
    for section in CHOICES:
        file, flags = layers.section(section)
        parts[section] = [_find(section, flags.get("name", file.get("name", DEFAULT_NAMES[section])))]
    file, flags = layers.section("model")
    name = flags.get("name", file.get("name"))
    return parts | ({"model": [config_class_of(name)]} if isinstance(name, str) and name else {"model": []})


def _inputs(layers: Layers, model: str, classes: Mapping[str, type]) -> dict[str, Any]:
    """The settings of each input.

    Raises:
        UserError: a layer states some of an input that the model hasn't.
    """
    for name in dict.fromkeys(name for layer in layers.section("inputs") for name in layer):
        if name not in classes:
            _refuse_other_input(layers, name, f"{model or 'the model'} takes {' and '.join(classes)}", classes)
    made: dict[str, Any] = {}
    for name, cls in classes.items():
        if cls is TextSettings:
            layers.drop_of_other_tokenizers(f"inputs.{name}.tokenizer")
        made[name] = build(cls, merge(*layers.section(f"inputs.{name}")), f"inputs.{name}")
    return made


def _refuse_other_input(layers: Layers, name: str, takes: str, known: Collection[str]) -> None:
    """Refuses what the layers state of an input that the model hasn't; defaults that are stated are none of it."""
    kind = next((kind for kind, usual in USUAL.items() if usual == name), None)
    if kind is None:
        raise UserError(f"inputs.{name}", None, f"is no input here: {takes}; {nearest(name, known)}")
    cls, field = settings_class(name, kind), f"inputs.{name}"
    part, plain = build(cls, merge(*layers.section(field)), field), cls()
    for one in dataclasses.fields(cls):
        if getattr(part, one.name) != getattr(plain, one.name):
            raise UserError(f"{field}.{one.name}", to_json(getattr(part, one.name)), f"has no effect: {takes}")


def _refuse_unused(layers: Layers, built: dict[str, Any], kinds: Mapping[str, str]) -> None:
    """Refuses settings of images where the model takes none, and those of text likewise."""
    for section in sorted(unused_sections(kinds.values())):
        part, plain = built[section], type(built[section])()
        stated = merge(*layers.section(section))
        changed = [field for field in stated if getattr(part, field) != getattr(plain, field)]
        if changed:
            message = f"has no effect: the model takes {' and '.join(kinds)}"
            raise UserError(f"{section}.{changed[0]}", getattr(part, changed[0]), message)


def _find(section: str, name: Any) -> type:
    """The part that a section names; faults are the section's."""
    name = convert(str, name, f"{section}.name")
    kind = KINDS[section.partition(".")[0]]
    part = find(kind, name, f"{section}.name")
    if name not in PARTS[kind]:
        check_part(kind, name, part, f"{section}.name")
    return part


def _choice(layers: Layers, section: str, default: str) -> tuple[str, Any]:
    """The name and the part of a section that has a `name`."""
    file, flags = layers.section(section)
    name = flags.get("name", file.get("name", DEFAULT_NAMES.get(default)))
    if not name:
        raise UserError(f"{section}.name", None, "must be set")
    part = _find(section, name)
    layers.drop_others(section, part)
    layers.replace_durations(section)
    fields = {key: value for key, value in merge(file, flags).items() if key != "name"}
    return str(name), build(part, fields, section)


def _evaluators(layers: Layers, data: Data, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    file, flags = layers.section("evaluate")
    parts, names = {}, {}
    for key in dict.fromkeys([*file, *flags]):
        value = flags.get(key, file.get(key))
        if value is None or (isinstance(value, FlagText) and value.lower() == "none"):
            continue
        if key == "train" or not re.fullmatch(r"\w[\w-]*", key):
            raise UserError(f"evaluate.{key}", None, "an evaluator's name is letters, digits, _ and -, and not `train`")
        names[key], parts[key] = _evaluator(layers, key, data, inputs)
    return parts, names


def _evaluator(layers: Layers, key: str, data: Data, inputs: Mapping[str, Any]) -> tuple[str, Any]:
    section = f"evaluate.{key}"
    for layer in layers.section(section):
        patched = _dict_at(layer, "data", section)
        if "split" in patched and "split" not in layer:
            layer["split"] = patched.pop("split")  # the evaluator's own `split` is the shortcut for it
            if not patched:
                layer.pop("data")
    # typed by the section that each patches, not by the evaluator's dict of anything
    _convert_patch(layers, section, "data", lambda own, prefix: convert_fields(Data, own, prefix))
    _convert_patch(layers, section, "inputs", functools.partial(_of_inputs, inputs))
    if not {"name"} & {*layers.section(section)[0], *layers.section(section)[1]}:
        hint = nearest(key, [other for other in layers.file.get("evaluate", {}) if other != key])
        raise UserError(f"{section}.name", None, f"must be set for a new evaluator; {hint}")
    name, part = _choice(layers, section, section)
    evaluation_data(data, part, section)
    for input, stated in part.inputs.items():
        patch(inputs[input], stated, f"{section}.inputs.{input}")
    return name, part


def _of_inputs(inputs: Mapping[str, Any], own: dict[str, Any], prefix: str) -> dict[str, Any]:
    """What an evaluator changes of each input, by the types of that input's settings."""
    typed = {}
    for name, stated in own.items():
        if name not in inputs:
            raise UserError(f"{prefix}.{name}", None, f"is no input here; {nearest(name, inputs)}")
        if of_model := [key for key in inputs[name].OF_MODEL if isinstance(stated, Mapping) and key in stated]:
            message = f"is what the model is trained with; an evaluator can't have another: inputs.{name}.{of_model[0]}"
            raise UserError(f"{prefix}.{name}.{of_model[0]}", stated[of_model[0]], message)
        typed[name] = convert_fields(type(inputs[name]), stated, f"{prefix}.{name}")
        typed[name] = {key: to_json(value) for key, value in typed[name].items()}
    return typed


def _dict_at(layer: dict[str, Any], field: str, section: str) -> dict[str, Any]:
    """The dict that a layer of a section states in a field, to be changed in place; a flag may have written it out."""
    if isinstance(layer.get(field), FlagText):
        layer[field] = convert(dict, layer[field], f"{section}.{field}")
    found = layer.get(field, {})
    if not isinstance(found, dict):
        raise UserError(f"{section}.{field}", found, "must be a dict of settings")
    return found


def _convert_patch(
    layers: Layers, section: str, field: str, typed: Callable[[dict[str, Any], str], dict[str, Any]]
) -> None:
    """Puts what a field's layers state together, by its types, in place of the uppermost."""
    file, flags = layers.section(section)
    own = merge(_dict_at(file, field, section), _dict_at(flags, field, section))
    if own:
        (flags if field in flags else file)[field] = typed(own, f"{section}.{field}")


def _sources_of_mixture(own: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Each source's settings by the types of the sections that it changes."""
    typed = {}
    for name, stated in own.items():
        if not isinstance(stated, dict):
            raise UserError(f"{prefix}.{name}", stated, "must be a dict of settings: dict(name='jsonl:sums.jsonl')")
        of_data = {key: value for key, value in stated.items() if key in annotations(Data)}
        of_text = {key: value for key, value in stated.items() if key in annotations(TextSettings)}
        typed[name] = {
            **stated,
            **convert_fields(Data, of_data, f"{prefix}.{name}"),
            **convert_fields(TextSettings, of_text, f"{prefix}.{name}"),
        }
    return typed


def _model(layers: Layers) -> ModelChoice:
    file, flags = layers.section("model")
    name = convert(str, flags.get("name", file.get("name", "")), "model.name")
    starts = merge({"init_from": layers.file.get("init_from", "")}, layers.flags).get("init_from", "")
    if not name and not starts:
        raise UserError(
            "model.name", None, "must be set (or --config.init_from=RUN, a checkpoint that says which model)"
        )
    if name:
        layers.drop_others("model", config_class_of(name))
        _drop_variant(layers, name)
    if layers.flags.get("init_from") and not layers.file.get("init_from") and not layers.argument:
        _drop_variant_for_checkpoint(layers)
    variant = convert(str, flags.get("variant", file.get("variant", "")), "model.variant")
    fields = {key: value for key, value in merge(file, flags).items() if key not in ("name", "variant")}
    if not name:  # typed once the checkpoint has said which model it is
        return ModelChoice(name, variant, {key: _guess(value) for key, value in fields.items()})
    config_class = config_class_of(name)
    base = variant_values(name, variant)
    changes = convert_fields(config_class, fields, "model")
    if not starts:
        changes = {key: value for key, value in changes.items() if key not in base or base[key] != value}
        build(config_class, {**base, **changes}, "model")
    return ModelChoice(name, variant, changes)


def _guess(value: Any) -> Any:
    return literal(value) if isinstance(value, FlagText) else convert(Any, value, "model")


def _drop_variant(layers: Layers, name: str) -> None:
    """With another model by flag, the file's variant goes too, unless the new model has it."""
    file, flags = layers.section("model")
    if "variant" in flags or not file.get("variant") or flags.get("name", file.get("name")) == file.get("name"):
        return
    try:
        variant_fields(name, file["variant"])
    except UserError:
        layers.notes.append(f"model.name = {name} has no variant {file.pop('variant')}: left out")


def _drop_variant_for_checkpoint(layers: Layers) -> None:
    """With a checkpoint by flag, the variant that the file states for training from nothing gives way to its model."""
    file, flags = layers.section("model")
    if "variant" not in flags and file.get("variant"):
        layers.notes.append(f"init_from brings the model's sizes: model.variant = {file.pop('variant')} left out")


def leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Nested dicts as one: path to value. An empty dict is a value."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= leaves(value, (*path, key))
        else:
            found[(*path, key)] = value
    return found
