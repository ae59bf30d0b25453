"""Reading and writing transformers' `config.json`: what a setting means here, and what has no place."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.schema import default_of
from vitzoo.weights.files.source import Source

GELUS = {
    "gelu": "gelu_exact",
    "gelu_python": "gelu_exact",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""transformers' names of activations → ours; of several for one, the first is written."""


def only(source: Source, plain: Mapping[str, Any]) -> None:
    """Refuses a file whose `config.json` gives a setting another value than the one that it has here."""
    for name, value in plain.items():
        stated = source.config.get(name, value)
        if stated != value:
            raise source.refused(f"config.json has {name} = {stated}; here it can only be {value}")


def agrees(source: Source, sizes: Mapping[str, int]) -> None:
    """Refuses a file whose `config.json` gives another size than its arrays have: one that lost its last layers."""
    for name, found in sizes.items():
        stated = source.config.get(name)
        if stated is not None and stated != found:
            raise source.refused(f"config.json has {name} = {stated}, and its arrays are of {found}")


def of_type(source: Source, *known: str) -> None:
    """Refuses a file whose `config.json` says that it is of another kind; several kinds share names."""
    stated = source.config.get("model_type")
    if stated is not None and stated not in known:
        raise source.refused(f"config.json has model_type = {stated}, which isn't {' or '.join(known)}")


def named(source: Source, field: str, usual: str, names: Mapping[str, str]) -> str:
    """Our name of what `config.json` names otherwise, such as an activation; Refused if it is unknown."""
    stated = source.config.get(field, usual)
    if stated not in names:
        raise source.refused(f"config.json has {field} = {stated}; known: {', '.join(names)}")
    return names[stated]


def theirs_of(field: str, ours: str, names: Mapping[str, str], where: str) -> str:
    """The way back: the first of their names; Refused if there is none."""
    found = next((theirs for theirs, known in names.items() if known == ours), None)
    if found is None:
        raise Refused(f"model.{field}", ours, f"has no place in {where}")
    return found


def heads_of(source: Source, field: str, given: Mapping[str, Any], width: int) -> int:
    """The number of heads, which no shape tells: given, or of `config.json`; Refused without either."""
    heads = given.get("num_heads", source.config.get(field))
    if heads is None:
        raise source.refused(f"has no config.json that says num_heads (of a width of {width}); give it")
    if not isinstance(heads, int) or heads < 1 or width % heads:
        raise source.refused(f"has num_heads = {heads}, which doesn't divide its width of {width}")
    return heads


def same(source: Source, name: str, other: str) -> bool:
    """Whether two names hold the same numbers, as tied arrays do that a file holds twice."""
    return name in source.tensors and bool(np.array_equal(source.tensors[name], source.tensors[other]))


def defaults(config_class: type, *names: str) -> dict[str, Any]:
    """Settings of a model and their defaults: for `must_be`, those that a format has no place for."""
    return {name: default_of(config_class.__dataclass_fields__[name]) for name in names}  # type: ignore[attr-defined]


def must_be(config: Any, fields: Mapping[str, Any], where: str) -> None:
    """Refuses a model of ours with a setting that a format has no place for."""
    for field, value in fields.items():
        stated = getattr(config, field)
        if stated != value:
            raise Refused(f"model.{field}", stated, f"has no place in {where}, where it is {value}")
