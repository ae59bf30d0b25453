"""What a config file is written with: the object that it fills in, choices by its argument, and what must be given.

In the object every setting has its default, and each section is a patch of the schema's. The argument stands behind the
colon, `vit/fashion_mnist:long`.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from vitzoo.argument_types import checked
from vitzoo.config.experiment import Experiment
from vitzoo.config.layers import Required
from vitzoo.config.model import USUAL, settings_class
from vitzoo.errors import UserError
from vitzoo.schema import annotations, default_of

_asked: contextvars.ContextVar[list[list[str]] | None] = contextvars.ContextVar("asked", default=None)


class NoSuchChoice(UserError):
    """An argument that is none of a config's choices."""


@checked()
def choice(arg: str, table: Mapping[str, Any] | Sequence[str]) -> Any:
    """What `arg` stands for in `table`; a config with a few variants calls it with its argument, or a part of that.

        def get_config(arg="short"):
            epochs = vitzoo.config.choice(arg, {"short": 12, "long": 40})

    Args:
        arg: as the user wrote it.
        table: a dict, whose value is returned, or a sequence of names, of which `arg` itself is.

    Raises:
        UserError: it is not in the table; all choices are named, and the config where that is known.
    """
    names = [str(name) for name in table]
    if (asked := _asked.get()) is not None and names not in asked:
        asked.append(names)
    if arg not in names:
        raise NoSuchChoice("config", arg, f"there is no {arg!r}; take one of {', '.join(names)}")
    return table[arg] if isinstance(table, Mapping) else arg


@contextlib.contextmanager
def choices_asked() -> Iterator[list[list[str]]]:
    """Within the block, the choices of every call of `choice`, in order, each table once."""
    asked: list[list[str]] = []
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


@checked()
def required(form: str) -> Required:
    """A value that whoever uses the config must give: without it nothing is trained.

        config.init_from = vitzoo.config.required("RUN")

    Args:
        form: what it looks like, as the refusal shows it: `--config.init_from=RUN`.
    """
    return Required(form)


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
