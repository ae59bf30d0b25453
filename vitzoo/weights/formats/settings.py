"""Reading and writing transformers' `config.json`: what a setting means here, what has no place, the classes' names."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard, TypeVar, overload

import numpy as np

from vitzoo import spelling
from vitzoo.checkpoints.metadata import Description
from vitzoo.errors import UserError
from vitzoo.limits import LARGEST_INTEGER
from vitzoo.schema import Settings, default_of
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights, shown
from vitzoo.weights.formats.registry import Given, type_of, what_it_says

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


LARGEST_EPSILON = 0.1
"""That a norm may add."""
PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")
"""What transformers' heads of classes are for."""


Stated = TypeVar("Stated")


def give(setting: str) -> str:
    """How a user states what a file doesn't say."""
    return f"give --config.model.{setting}=VALUE (of predict and generate, which take no settings, convert it first)"


def only(source: Weights, plain: Mapping[str, JSON]) -> None:
    """Refuses a file whose `config.json` gives a setting another value than the one that it has here."""
    for name, value in plain.items():
        stated = source.config.get(name, value)
        if stated != value:
            raise source.refused(f"{source.config_name} has {name} = {shown(stated)}; here it can only be {value!r}")


def agrees(source: Weights, sizes: Mapping[str, int]) -> None:
    """Refuses a file whose `config.json` gives another size than its arrays have: one that lost its last layers."""
    for name, found in sizes.items():
        stated = source.config.get(name)
        if stated is not None and stated != found:
            raise source.refused(f"{source.config_name} has {name} = {shown(stated)}, and its arrays are of {found}")


def of_type(source: Weights, *known: str) -> None:
    """Refuses a file whose `config.json` says that it is of another kind; several kinds share names."""
    stated = type_of(source)
    if stated is not None and stated not in known:
        raise source.refused(f"{what_it_says(source)}, which isn't {' or '.join(known)}")


def named(source: Weights, field: str, usual: str, names: Mapping[str, str]) -> str:
    """Our name of what `config.json` names otherwise, such as an activation; UserError if it is unknown."""
    stated = usual if source.config.get(field) is None else source.config[field]
    if not isinstance(stated, str) or stated not in names:
        raise source.refused(f"{source.config_name} has {field} = {shown(stated)}; known: {', '.join(names)}")
    return names[stated]


@overload
def whole(source: Weights, field: str, *, least: int = 0, most: int = LARGEST_INTEGER) -> int | None: ...
@overload
def whole(source: Weights, field: str, usual: int, *, least: int = 0, most: int = LARGEST_INTEGER) -> int: ...
def whole(
    source: Weights, field: str, usual: int | None = None, *, least: int = 0, most: int = LARGEST_INTEGER
) -> int | None:
    """An integer of `config.json`; `usual` where it says none; UserError if it is no integer within limits."""

    def fits(stated: JSON) -> TypeGuard[int]:
        return type(stated) is int and least <= stated <= most

    return value(source, field, usual, fits, f"an integer from {least:,} to {most:,}")


def flag(source: Weights, field: str, usual: bool) -> bool:
    """True or false of `config.json`; `usual` where it says neither."""
    return value(source, field, usual, is_bool, "true or false")


def epsilon(source: Weights, field: str, usual: float) -> float:
    """What `config.json` says that norms add."""

    def fits(stated: JSON) -> TypeGuard[float]:
        return is_number(stated) and 0 < stated <= LARGEST_EPSILON

    return value(source, field, usual, fits, f"a number above 0 and at most {LARGEST_EPSILON}")


def value(source: Weights, field: str, usual: Stated, fits: Callable[[JSON], TypeGuard[Stated]], right: str) -> Stated:
    """What `config.json` says; `usual` where it says nothing; UserError if it doesn't fit, with what is right."""
    stated = source.config.get(field)
    if stated is None:
        return usual
    if not fits(stated):
        raise source.refused(f"{source.config_name} has {field} = {shown(stated)}; {right} is right")
    return stated


def is_bool(value: JSON) -> TypeGuard[bool]:
    """Whether a value of JSON is true or false."""
    return isinstance(value, bool)


def is_number(value: JSON) -> TypeGuard[float]:
    """Whether a value of JSON is a number that float32 holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e38


def of_channels(source: Weights, field: str, stated: JSON, channels: int) -> list[float]:
    """A mean or a deviation of pixels: one number, or one for each of the model's channels; deviations are above 0.

    Three equal numbers are one to a model of grey images.
    """
    values = stated if isinstance(stated, list) else [stated]
    numbers = [one for one in values if is_number(one)]
    if len(values) not in (1, 3) or len(numbers) < len(values) or ("std" in field and min(numbers) <= 0):
        right = "a number, or one for each channel, is right" + (", above 0" if "std" in field else "")
        raise source.refused(f"{source.config_name} has {field} = {shown(stated)}; {right}")
    if len(numbers) > channels and len(set(numbers)) > 1:
        right = "its images have one channel, so one number is right"
        raise source.refused(f"{source.config_name} has {field} = {shown(stated)}; {right}")
    return numbers[:channels]


def shares(source: Weights, names: Mapping[str, str]) -> dict[str, float]:
    """Dropouts and the like: our settings → what `config.json` says under these names, from 0 to below 1."""

    def fits(stated: JSON) -> TypeGuard[float]:
        return is_number(stated) and 0 <= stated < 1

    stated = {ours: theirs for ours, theirs in names.items() if source.config.get(theirs) is not None}
    return {ours: value(source, theirs, 0.0, fits, "a number from 0 to below 1") for ours, theirs in stated.items()}


def problem_of(source: Weights) -> str | None:
    """What `config.json` says that a head is for."""
    stated = source.config.get("problem_type")
    if stated is not None and stated not in PROBLEMS:
        raise source.refused(f"config.json has problem_type = {shown(stated)}; known: {', '.join(PROBLEMS)}")
    return stated


def theirs_of(field: str, ours: str, names: Mapping[str, str], where: str) -> str:
    """The way back: the first of their names; UserError if there is none."""
    found = next((theirs for theirs, known in names.items() if known == ours), None)
    if found is None:
        raise UserError(f"model.{field}", ours, f"has no place in {where}")
    return found


def heads_of(source: Weights, field: str, given: Given, width: int) -> int:
    """The number of heads, which no shape tells: of `config.json`, else given; UserError without either."""
    return heads_that(source, whole(source, field, least=1), f"{source.config_name} says {field}", given, width)


def heads_that(source: Weights, stated: int | None, said: str, given: Given, size: int) -> int:
    """The number of heads that is stated, else given.

    Args:
        source: the file.
        stated: by what lies in or beside the file; None where nothing does.
        said: who states it, and under which name.
        given: settings that a user states.
        size: of all heads together.

    Raises:
        UserError: neither says it, they differ, or it doesn't divide the size.
    """
    wanted = given.get("num_heads")
    if stated is None and wanted is None:
        raise source.refused(f"has no config.json that says num_heads (of a width of {size}); {give('num_heads')}")
    if stated is not None and wanted is not None and stated != wanted:
        raise source.refused(f"{said} = {stated}, and num_heads = {wanted} was given; leave it out")
    heads = wanted if stated is None else stated
    if not isinstance(heads, int) or heads < 1 or size % heads:
        raise source.refused(f"has num_heads = {shown(heads)}, which doesn't divide {size}, the size of all heads")
    return heads


def same(source: Weights, name: str, other: str) -> bool:
    """Whether two names hold the same numbers, as tied arrays do that a file holds twice."""
    return name in source.tensors and bool(np.array_equal(source.numbers(name), source.numbers(other)))


def defaults(config_class: type[Settings], *names: str) -> dict[str, JSON]:
    """Settings of a model and their defaults: for `must_be`, those that a format has no place for."""
    return {name: default_of(config_class.__dataclass_fields__[name]) for name in names}


def must_be(config: Settings, fields: Mapping[str, JSON], where: str) -> None:
    """Refuses a model of ours with a setting that a format has no place for."""
    for field, value in fields.items():
        stated = getattr(config, field)
        if stated != value:
            raise UserError(f"model.{field}", stated, f"has no place in {where}, where it is {value}")


def labels(source: Weights, outputs: int) -> tuple[str, ...] | None:
    """The names by index that `id2label` of transformers' `config.json` gives; None where it gives none, or only the
    placeholders of a model whose classes were never named.

    Raises:
        UserError: it is no table of a name for each output, `num_labels` is another number, or `label2id` contradicts.
    """
    if outputs:
        agrees(source, {"num_labels": outputs})
    stated = source.config.get("id2label")
    if stated is None or stated == {} or not outputs:
        return None
    if not isinstance(stated, Mapping):
        raise source.refused(f"config.json has id2label = {shown(stated)}; a table of a name for each class is right")
    if sorted(stated) != sorted(map(str, range(outputs))):
        raise source.refused(f"has an id2label of {len(stated)} names in config.json for {outputs} classes, 0 and up")
    names = checked_names(source, "id2label", [stated[str(index)] for index in range(outputs)])
    if list(names) == placeholders(outputs):
        return None
    _check_way_back(source, names)
    return names


def _check_way_back(source: Weights, names: Sequence[str]) -> None:
    """Refuses a `label2id` that gives a class another number than its name has: nobody knows which of them is right.
    Numbers may be texts, and placeholders are left over from when the classes had no names.
    """
    stated = source.config.get("label2id") or {}
    if not isinstance(stated, Mapping):
        raise source.refused(f"config.json has label2id = {shown(stated)}; a table of a number for each class is right")
    places = spelling.positions(names)
    for name, index in stated.items() if list(stated) != placeholders(len(stated)) else ():
        right = places.get(spelling.normalise(name), [])
        if str(index) not in map(str, right):
            of = f"id2label says {', '.join(map(str, right))}" if right else "id2label has no such class"
            raise source.refused(f"config.json has label2id {name} = {shown(index)}, and {of}")


def checked_names(source: Weights, field: str, names: Sequence[JSON]) -> tuple[str, ...]:
    """Names of a setting, which two classes may share; UserError if one isn't text, or shows nothing."""
    found = []
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise source.refused(f"config.json has {field} {index} = {shown(name)}; text is right")
        if spelling.is_blank(name):
            raise source.refused(f"config.json has {field} {index} = {name!r}; a name that can be read is right")
        found.append(name)
    return tuple(found)


def placeholders(outputs: int) -> list[str]:
    """The names of classes that have none."""
    return [f"LABEL_{index}" for index in range(outputs)]


def written_labels(outputs: int, description: Description) -> dict[str, JSON]:
    """Names of classes, and whether an example may have several; nothing without a head."""
    if not outputs:
        return {}
    names = description.get("classes") or placeholders(outputs)
    sigmoid = (description.get("objective") or {}).get("loss") == "sigmoid"
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": "multi_label_classification" if sigmoid else "single_label_classification",
    }
