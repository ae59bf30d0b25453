"""A config file, its argument and overrides become one checked experiment, every value with where it came from.

Layers, later wins: the dataclass's defaults, the model's variant, the file, the flags. Section by section they become
the parts of the experiment.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from vitzoo.argument_types import checked
from vitzoo.config.contracts import check_part
from vitzoo.config.defaults import Config
from vitzoo.config.experiment import CHOICES, OF_KIND, Experiment, evaluation_data, unused_sections, values_of
from vitzoo.config.fields import KINDS, nearest_setting
from vitzoo.config.files import find_config, load
from vitzoo.config.layers import (
    DEFAULT_NAMES,
    Layers,
    Overrides,
    Required,
    leaves,
    listed,
    merge,
    nested,
    say_without_effect,
)
from vitzoo.config.model import USUAL, choose, config_class_of, input_kinds, settings_class, variant_fields
from vitzoo.data.folders import absolute_places
from vitzoo.data.settings import Data, InputSettings
from vitzoo.data.text.mixture import settings_of
from vitzoo.errors import UserError, as_text
from vitzoo.literals import FlagText, plain
from vitzoo.registry import UserPartFaults, find
from vitzoo.schema import WithKinds, annotations, build, convert, convert_fields, patch, to_json
from vitzoo.spelling import nearest


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A config with nothing left open."""

    experiment: Experiment
    sources: dict[str, str]
    """By dotted name: `default`, `variant`, `file` or `flag`."""
    values: dict[str, Any]
    """The merged result as plain values: what `config.json` holds. Resolving it gives the same again."""
    notes: list[str]
    """What was left out in merging, for the user to read."""
    name: str
    """The config as the user wrote it."""


@checked()
def resolve(config: Any, arg: str | None = None, overrides: Overrides = (), *, complete: bool = True) -> Resolved:
    """Runs a config and merges, converts and checks it. Starts no device backend and reads no data.

    Args:
        config: a file or a name (either may end in `:ARG`), a `config.json`, or what a `get_config` returns.
        arg: the argument of `get_config`, in place of `:ARG`.
        overrides: `["optimizer.learning_rate=3e-4"]`, read as flags are, or `{"optimizer.learning_rate": 3e-4}`.
        complete: refuse a config of whose `required` values some are not given; False shows their form instead.

    Raises:
        UserError: the first thing that is wrong, by its dotted name.
    """
    overrides = listed(overrides)
    if isinstance(config, Resolved):
        if not overrides:
            return config
        config, label = config.values, config.name
    else:
        label = f"{config}" if isinstance(config, str | Path) else "(given)"
    argument = arg is not None or (isinstance(config, str | Path) and find_config(config)[1] is not None)
    if isinstance(config, str | Path):
        config, label = load(config, arg), f"{config}:{arg}" if arg is not None else label
    stated, inherited = _stated(config, label)
    layers = Layers(stated, nested(overrides), inherited, argument=argument)
    if complete:
        layers.refuse_missing()
    with UserPartFaults():
        experiment, names = build_experiment(layers)
    values = values_of(experiment, names)
    return Resolved(experiment, _sources(experiment, values, layers), values, layers.notes, label)


def _stated(config: Any, label: str) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """What a config states, in plain values; and by section, what it states for a choice that it then replaced."""
    try:
        if isinstance(config, Config):
            return plain(config.stated()), config.inherited()
        if isinstance(config, Mapping) or (hasattr(config, "to_dict") and not isinstance(config, type)):
            return plain(config), {}
    except UserError:
        raise
    except Exception as error:  # a reference of ml_collections to nothing, a config that holds itself
        said = as_text(error).partition("\n")[0]
        raise UserError("config", label, f"can't be read: {type(error).__name__}: {said}") from error
    raise UserError("config", config, "must be a file, a name, or what a get_config returns: a dict of settings")


def _sources(experiment: Experiment, values: dict[str, Any], layers: Layers) -> dict[str, str]:
    model = experiment.model
    variant = {} if not model.name or experiment.init_from else variant_fields(model.name, model.variant)
    return {".".join(path): layers.source(path, variant) for path in leaves(values)}


def build_experiment(layers: Layers) -> tuple[Experiment, dict[str, Any]]:
    """The experiment, checked, and the names of the parts that were chosen (`evaluate`: by evaluator)."""
    _refuse_unknown(layers)
    _make_places_absolute(layers)
    layers.replace_durations("")
    hints = annotations(Experiment)
    built: dict[str, Any] = {}
    names: dict[str, Any] = {}
    built["model"] = choose(layers)
    for section in CHOICES:
        names[section], built[section] = _choice(layers, section, section)
    built["model"].check_takes(built["objective"])
    kinds = input_kinds(built["model"].name, built["objective"])
    classes = {name: settings_class(name, kind) for name, kind in kinds.items()}
    built["inputs"] = _inputs(layers, built["model"].name, classes)
    of_mixture = _of_kind(OF_KIND["mixture"], kinds, built["inputs"])
    _convert_patch(layers, "mixture", "sources", functools.partial(_sources_of_mixture, type(of_mixture)))
    for name, hint in hints.items():
        if dataclasses.is_dataclass(hint) and name not in built:
            layers.replace_durations(name)
            built[name] = build(hint, layers.merged(name), name)  # type: ignore[arg-type, type-var]
    for name, own in built["mixture"].sources.items():
        settings_of(own, built["data"], of_mixture, f"mixture.sources.{name}")
    _refuse_unused(layers, built, kinds)
    built["evaluate"], names["evaluate"] = _evaluators(layers, built["data"], built["inputs"])
    say_without_effect(layers, built)
    built["model"].check_measured(built["objective"], built["evaluate"], names["evaluate"])
    scalars = {key: value for layer in (layers.file, layers.flags) for key, value in layer.items() if key not in built}
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
        parts[section] = [_find(section, layers.merged(section).get("name", DEFAULT_NAMES[section]))]
    name = layers.merged("model").get("name")
    return parts | ({"model": [config_class_of(name)]} if isinstance(name, str) and name else {"model": []})


def _of_kind(kind: str, kinds: Mapping[str, str], inputs: Mapping[str, InputSettings]) -> Any:
    """The settings of the first input of a kind; the defaults where there is none."""
    return next((inputs[name] for name in kinds if kinds[name] == kind), settings_class(USUAL[kind], kind)())


def _inputs(layers: Layers, model: str, classes: Mapping[str, type]) -> dict[str, InputSettings]:
    """The settings of each input.

    Raises:
        UserError: a layer states some of an input that the model hasn't.
    """
    for name in dict.fromkeys(name for layer in layers.section("inputs") for name in layer):
        if name not in classes:
            _refuse_other_input(layers, name, f"{model or 'the model'} takes {' and '.join(classes)}", classes)
    made: dict[str, InputSettings] = {}
    for name, cls in classes.items():
        for field, hint in annotations(cls).items():
            if isinstance(hint, type) and issubclass(hint, WithKinds):
                layers.drop_of_other_kinds(f"inputs.{name}.{field}", hint)
        made[name] = build(cls, layers.merged(f"inputs.{name}"), f"inputs.{name}")
    return made


def _refuse_other_input(layers: Layers, name: str, takes: str, known: Collection[str]) -> None:
    """Refuses what the layers state of an input that the model hasn't; defaults that are stated are none of it."""
    kind = next((kind for kind, usual in USUAL.items() if usual == name), None)
    if kind is None:
        raise UserError(f"inputs.{name}", None, f"is no input here: {takes}; {nearest(name, known)}")
    cls: type = settings_class(name, kind)
    field = f"inputs.{name}"
    part: Any = build(cls, layers.merged(field), field)
    plain = cls()
    for one in dataclasses.fields(cls):
        if getattr(part, one.name) != getattr(plain, one.name):
            raise UserError(f"{field}.{one.name}", to_json(getattr(part, one.name)), f"has no effect: {takes}")


def _refuse_unused(layers: Layers, built: dict[str, Any], kinds: Mapping[str, str]) -> None:
    """Refuses settings of images where the model takes none, and those of text likewise."""
    for section in sorted(unused_sections(kinds.values())):
        part, plain = built[section], type(built[section])()
        stated = layers.merged(section)
        changed = [field for field in stated if getattr(part, field) != getattr(plain, field)]
        if changed:
            message = f"has no effect: the model takes {' and '.join(kinds)}"
            raise UserError(f"{section}.{changed[0]}", getattr(part, changed[0]), message)


def _find(section: str, name: Any) -> type:
    """The part that a section names; faults are the section's."""
    name = convert(str, name, f"{section}.name")
    kind = KINDS[section.partition(".")[0]]
    part = find(kind, name, f"{section}.name")
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
    if "name" not in layers.merged(section):
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


def _sources_of_mixture(text: type, own: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Each source's settings by the types of the sections that it changes, the data's and those of the `text`."""
    typed = {}
    for name, stated in own.items():
        if not isinstance(stated, dict):
            raise UserError(f"{prefix}.{name}", stated, "must be a dict of settings: dict(name='jsonl:sums.jsonl')")
        of_data = {key: value for key, value in stated.items() if key in annotations(Data)}
        of_text = {key: value for key, value in stated.items() if key in annotations(text)}
        typed[name] = {
            **stated,
            **convert_fields(Data, of_data, f"{prefix}.{name}"),
            **convert_fields(text, of_text, f"{prefix}.{name}"),
        }
    return typed
