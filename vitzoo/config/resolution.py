"""A config file, its argument and overrides become one checked experiment, every value with where it came from."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vitzoo.argument_types import checked
from vitzoo.config.argument import refuse_missing
from vitzoo.config.build import Layers, build_experiment, leaves
from vitzoo.config.defaults import Config
from vitzoo.config.experiment import Experiment, values_of, variant_fields
from vitzoo.config.files import find_config, load
from vitzoo.errors import UserError, as_text
from vitzoo.literals import FlagText, plain
from vitzoo.registry import UserPartFaults

Overrides = Iterable[str] | Mapping[str, Any]


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
    overrides = _listed(overrides)
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
        refuse_missing(layers.file, layers.flags)
    with UserPartFaults():
        experiment, names = build_experiment(layers)
    values = values_of(experiment, names)
    return Resolved(experiment, _sources(experiment, values, layers), values, layers.notes, label)


def _listed(overrides: Any) -> Mapping[str, Any] | list[str]:
    if isinstance(overrides, Mapping):
        return overrides
    if isinstance(overrides, Iterable) and not isinstance(overrides, str | bytes):
        listed = list(overrides)
        if all(isinstance(one, str) for one in listed):
            return listed
    message = 'must be a dict, {"optimizer.learning_rate": 3e-4}, or a list, ["optimizer.learning_rate=3e-4"]'
    raise UserError("overrides", overrides, message)


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
    return {".".join(path): layers.source(list(path), variant) for path in leaves(values)}


def nested(overrides: Overrides) -> dict[str, Any]:
    """Overrides as nested dicts; `KEY=VALUE` texts keep their values as `FlagText`, to be read by the field's type."""
    layer: dict[str, Any] = {}
    overrides = _listed(overrides)
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
