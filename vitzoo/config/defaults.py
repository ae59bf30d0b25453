"""The object that a config file fills in: every setting with its default, each section a patch of the schema's."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from vitzoo.config.argument import Required
from vitzoo.config.experiment import Experiment
from vitzoo.config.inputs import USUAL, settings_class
from vitzoo.schema import annotations, default_of


def default() -> "Config":
    """A config with every default, to be changed by a config file's `get_config`."""
    config = Config(sections=True)
    config.model = {"name": "", "variant": ""}
    config.objective = {"name": "classification"}
    config.optimizer = {"name": "adamw"}
    config.schedule = {"name": "cosine"}
    hints = annotations(Experiment)
    for field in dataclasses.fields(Experiment):
        if dataclasses.is_dataclass(hints[field.name]):
            if field.name != "model":
                config[field.name] = defaults_of(hints[field.name])  # type: ignore[arg-type]
        elif field.name == "evaluate":
            config._fields["evaluate"] = Config(sections=True)
        elif field.name == "inputs":
            inputs = config._fields["inputs"] = Config(sections=True)
            for kind, name in USUAL.items():
                inputs[name] = defaults_of(settings_class(name, kind))
        elif field.name not in config:
            config[field.name] = default_of(field)
    config.forget()
    return config


def defaults_of(cls: type) -> dict[str, Any]:
    """The defaults of a dataclass, by field."""
    values = {field.name: default_of(field) for field in dataclasses.fields(cls)}
    return {
        name: Config(defaults_of(type(value))) if dataclasses.is_dataclass(value) else value
        for name, value in values.items()
        if value is not dataclasses.MISSING
    }


class Config(ConfigDict):
    """A ConfigDict in which assigning a dict to a section changes the fields it names and leaves the others.

    It remembers which fields were stated, and which of them for another choice of `name`, so that those the new choice
    lacks can be dropped. Types are the schema's to check, once, when the config is resolved.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, *, sections: bool = False):
        super().__init__(type_safe=False, convert_dict=False, sort_keys=False)
        object.__setattr__(self, "_sections", sections)
        object.__setattr__(self, "_stated", {})
        object.__setattr__(self, "_inherited", set())
        for key, value in (values or {}).items():
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        held = self._fields.get(key)
        if isinstance(held, Config) and isinstance(value, Mapping | ConfigDict):
            held.change(value)
            return
        if self._sections and isinstance(value, Mapping | ConfigDict):
            value = Config(value)
        if key == "name" and held not in (None, "", value):
            self._inherited.update(set(self._stated) - {"name"})
        super().__setitem__(key, value)
        if isinstance(value, Required):  # where text was held before, it is made plain text
            self._fields[key] = value
        self._stated[key] = True
        self._inherited.discard(key)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._stated.pop(key, None)

    def change(self, values: Any) -> None:
        """Assigns each of `values`; a new `name` first."""
        for key, value in sorted(values.items(), key=lambda item: item[0] != "name"):
            self[key] = value

    def forget(self) -> None:
        """Takes all values as defaults: from here on, what is assigned is what is stated."""
        self._stated.clear()
        for value in self._fields.values():
            if isinstance(value, Config):
                value.forget()

    def stated(self) -> dict[str, Any]:
        """What was assigned, as plain values."""
        found = {}
        for key in self.keys():
            value = self[key]
            if isinstance(value, Config):
                if self._stated.get(key) or value.stated():
                    found[key] = value.stated()
            elif self._stated.get(key):
                found[key] = value
        return found

    def inherited(self) -> dict[str, set[str]]:
        """By section, the fields stated for a choice that was then replaced by another."""
        sections = {key: self[key] for key in self.keys() if isinstance(self[key], Config)}
        found = {key: set(value._inherited) for key, value in sections.items() if value._inherited}
        for key, value in sections.items():
            found |= {f"{key}.{inner}": fields for inner, fields in value.inherited().items()}
        return found
