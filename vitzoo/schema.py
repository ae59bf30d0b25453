"""How a part of vitzoo declares its settings, and how values become a checked, frozen part.

A *part* (model config, objective, optimizer, schedule, evaluator, data section) is a frozen dataclass whose fields
are made with `setting`. `build` turns a dict of values, from a file or from flags, into one; `to_json` turns it back.
"""

import contextlib
import dataclasses
import functools
import math
import numbers
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from vitzoo import literals
from vitzoo.errors import UserError
from vitzoo.limits import LARGEST_INTEGER, Limits, check_limits, check_survives_float32, limits_of
from vitzoo.literals import FlagText, LikeMapping, literal, plain
from vitzoo.spelling import dotted, nearest

Part = TypeVar("Part")


class Settings(Protocol):
    """A part, of whatever kind."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]


@runtime_checkable
class WithCheck(Protocol):
    """A part whose settings have to fit each other."""

    def check(self) -> None:
        """Raises UserError, its field named from inside the part."""
        ...


@runtime_checkable
class WithKinds(Protocol):
    """A section within a section, of which not every `kind` uses all settings."""

    @classmethod
    def unused(cls, kind: str, before: str) -> list[str]:
        """The settings that a file may state for the kind `before`, and that are left out where another is made."""
        ...


def setting(default: Any = dataclasses.MISSING, help: str = "", *, factory: Any = dataclasses.MISSING, **limits) -> Any:
    """A dataclass field with a help text and limits: `minimum`, `above`, `maximum`, `below`, `choices`, `form`,
    `subnormal`, `execution`, `checkpoint`, `needs` (see `vitzoo.limits.Limits`).
    """
    return dataclasses.field(default=default, default_factory=factory, metadata={"limits": Limits(help, **limits)})


def checkpoints_of(part: Settings) -> dict[str, str]:
    """The checkpoints that a part's settings name, by setting; without those that are left empty."""
    fields = (field.name for field in dataclasses.fields(part) if limits_of(field).checkpoint)
    return {name: checkpoint for name in fields if (checkpoint := getattr(part, name))}


@functools.cache
def annotations(cls: type) -> dict[str, Any]:
    """The types of the settable fields of a dataclass, by name."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]


def default_of(field: dataclasses.Field) -> Any:
    """A field's default value; `dataclasses.MISSING` where it has to be set."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def convert(annotation: Any, value: Any, field: str, form: str = "") -> Any:
    """`value` as the type `annotation` says, or refused.

    Args:
        annotation: a field's type.
        value: from a file, or from a flag as `FlagText`.
        field: its name.
        form: of several values, what each is, for the message: `HEIGHT,WIDTH`.

    An integer is fine for a float; a bool for a number, a float for an integer, NaN and infinity are refused.
    `FlagText` is read by the type: `1e3` is no integer, `true`, `false`, `1` and `0` are booleans and `no`
    is not; tuples are split at commas, `none` is for optional fields, a dict is `key:number,key:number` or a literal.

    Raises:
        UserError: names `field`, the value and what would be right.
    """
    origin = typing.get_origin(annotation)
    if annotation is Any:
        if isinstance(value, FlagText):
            return literal(value)
        return value if dataclasses.is_dataclass(value) else plain(value, field)  # a part that is built already
    if origin in (typing.Union, types.UnionType):
        return _convert_union(typing.get_args(annotation), value, field, form)
    if origin is typing.Literal:
        return _convert_choice(typing.get_args(annotation), value, field)
    if dataclasses.is_dataclass(annotation):
        return build(annotation, value, field)  # type: ignore[arg-type, type-var]
    converter = _CONVERTERS.get(origin or annotation)
    if converter is None:
        return _convert_other(annotation, value, field)
    return converter(typing.get_args(annotation), value, field)


def _convert_bool(_, value: Any, field: str) -> bool:
    if isinstance(value, FlagText) and value.lower() in ("true", "1", "false", "0"):
        return value.lower() in ("true", "1")
    if isinstance(value, bool):
        return value
    raise UserError(field, value, "must be true or false")


def _convert_int(_, value: Any, field: str) -> int:
    number: float | None = None
    if isinstance(value, FlagText):
        if (integer := literals.integer(value)) is not None:
            return integer
        with contextlib.suppress(ValueError):
            number = literals.number(value)
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    elif isinstance(value, float):
        number = value
    is_whole = number is not None and number.is_integer() and abs(number) <= LARGEST_INTEGER
    raise UserError(field, value, f"must be an integer{f' (written out: {int(number or 0)})' if is_whole else ''}")


def _convert_float(_, value: Any, field: str) -> float:
    number: float | None = None
    try:
        if isinstance(value, FlagText):
            number = literals.number(value)
        elif isinstance(value, numbers.Real) and not isinstance(value, bool):
            number = float(value)
    except OverflowError:
        number = math.inf
    except ValueError as error:
        raise UserError(field, value, f"{error}; write 0, or a larger number") from None
    if number is None:
        raise UserError(field, value, "must be a number")
    if not math.isfinite(number):
        raise UserError(field, value, "must be a finite number")
    return number


def _convert_str(_, value: Any, field: str) -> str:
    if isinstance(value, str):
        return str(value)
    raise UserError(field, value, "must be text")


def _convert_none(_, value: Any, field: str) -> None:
    if value is not None and not (isinstance(value, FlagText) and value.lower() == "none"):
        raise UserError(field, value, "must be none")


def _convert_sequence(arguments: tuple, value: Any, field: str) -> tuple:
    pairs = bool(arguments) and len(typing.get_args(arguments[0])) == 2 and arguments[-1] is Ellipsis
    if isinstance(value, FlagText):
        value = _list_from_text(value, pairs, field)
    if pairs and isinstance(value, Mapping):
        value = tuple(value.items())
    if not isinstance(value, list | tuple):
        raise UserError(field, value, "must be a list (in a flag: a,b,c)")
    if not arguments:
        return plain(value, field)
    if len(arguments) == 1 or arguments[-1] is Ellipsis:
        return tuple(convert(arguments[0], item, field) for item in value)
    if len(value) != len(arguments):
        raise UserError(field, ",".join(map(str, value)), f"must be {len(arguments)} values (in a flag: a,b)")
    return tuple(convert(kind, item, field) for kind, item in zip(arguments, value, strict=True))


def _list_from_text(text: FlagText, pairs: bool, field: str) -> Any:
    # a written-out list keeps commas within its items; other brackets are an item's own (a pattern's)
    if text.strip()[:1] in ("(", "[") and isinstance(written := literal(text), tuple):
        return written
    if pairs:
        return _mapping_from_text(text, field)
    return tuple(FlagText(part) for part in (one.strip(" \t\r\n") for one in text.split(",")) if part)


def _convert_mapping(arguments: tuple, value: Any, field: str) -> dict:
    if isinstance(value, FlagText):
        value = _mapping_from_text(value, field)
    if not isinstance(value, Mapping | LikeMapping):
        raise UserError(field, value, "must be a dict (in a flag: key:value,key:value)")
    key_type, item_type = arguments or (str, Any)
    items = {str(key): convert(item_type, item, dotted(field, str(key))) for key, item in value.items()}
    return {convert(key_type, FlagText(key), field): item for key, item in items.items()}  # JSON's keys are text


def _mapping_from_text(text: str, field: str) -> dict:
    if text.strip().startswith("{"):
        value = literal(text)
        if isinstance(value, dict):
            return value
        raise UserError(field, text, "is not a dict")
    # a key is a pattern and may hold commas and colons of its own; what ends an entry is `:value` before a comma
    entries = re.findall(r"(.+?):([\w.+-]*)(?:,|$)", text)
    if sum(len(key) + len(item) + 1 for key, item in entries) + max(len(entries) - 1, 0) != len(text.rstrip(",")):
        raise UserError(field, text, "must be key:value,key:value")
    return {key.strip(): FlagText(item.strip()) for key, item in entries}


def _convert_choice(choices: tuple, value: Any, field: str) -> Any:
    for choice in choices:
        if value == choice or (isinstance(value, FlagText) and value == str(choice)):
            return choice
    raise UserError(field, value, nearest(str(value), map(str, choices)))


def _convert_other(annotation: Any, value: Any, field: str) -> Any:
    if isinstance(annotation, type) and isinstance(value, annotation):
        return value
    raise UserError(field, value, f"must be a {getattr(annotation, '__name__', annotation)}")


_CONVERTERS: dict[Any, Any] = {
    bool: _convert_bool,
    int: _convert_int,
    float: _convert_float,
    str: _convert_str,
    type(None): _convert_none,
    tuple: _convert_sequence,
    list: _convert_sequence,
    Sequence: _convert_sequence,
    dict: _convert_mapping,
    Mapping: _convert_mapping,
}

# the order in which text is tried against the members of a union: `1` is a number before it is a bool, and anything
# at all is text
_UNION_ORDER = (type(None), int, float, bool, tuple, Sequence, list, dict, Mapping, str)


def _convert_union(members: tuple, value: Any, field: str, form: str) -> Any:
    if value is None and type(None) in members:
        return None
    if isinstance(value, FlagText):
        if value.lower() == "none" and type(None) in members:
            return None
        rank: dict[Any, int] = {kind: i for i, kind in enumerate(_UNION_ORDER)}
        members = tuple(sorted(members, key=lambda kind: rank.get(typing.get_origin(kind) or kind, len(rank))))
    refusals = {}
    for member in members:
        try:
            return convert(member, value, field)
        except UserError as refusal:
            refusals[member] = refusal
    kinds = [member for member in members if member is not type(None)]
    deeper = [refusals[kind] for kind in kinds if refusals[kind].field != field]
    if deeper := deeper or [
        refusal for refusal in refusals.values() if not refusal.message.startswith(("must be ", "known: "))
    ]:
        raise deeper[0]
    words = [_in_words(kind, refusals[kind], form) for kind in kinds]
    raise UserError(field, value, f"must be {_either([*words, *(['none'] * (type(None) in members))])}")


_COUNTED = ("no", "one", "two", "three", "four")
_SINGULAR = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
_PLURAL = {int: "integers", float: "numbers", str: "texts", bool: "of true and false"}


def _in_words(kind: Any, refusal: UserError, form: str) -> str:
    """What a member of a union takes; what was wrong with a value of its kind is in the refusal."""
    if refusal.message.startswith(("must be an integer (", "must be a finite")):
        return refusal.message.removeprefix("must be ")
    if kind in _SINGULAR:
        return _SINGULAR[kind]
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and arguments:
        several = _PLURAL.get(arguments[0], "values")
        if arguments[-1] is Ellipsis:
            return f"{several} A,B,..."
        letters = ",".join("ABCDEFGH"[: len(arguments)])
        return f"{_COUNTED[len(arguments)]} {several} {form or letters}"
    if typing.get_origin(kind) is typing.Literal:
        return _either([str(one) for one in arguments])
    return refusal.message.removeprefix("must be ")


def _either(words: Sequence[str]) -> str:
    """Words of a list that may hold commas of their own: `a number, two integers A,B, or none`."""
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)}, or {last}" if first else last


def build(cls: type[Part], values: Any, prefix: str = "") -> Part:
    """The part `cls` with `values` in its fields, each converted and checked; then `cls.check`, if it has one.

    Args:
        cls: a dataclass. Fields that are dataclasses themselves are built from a dict of theirs.
        values: a mapping of field names to values, or an instance of `cls`, which is returned.
        prefix: what goes before a field's name in a refusal (`optimizer`).

    Raises:
        UserError: an unknown key (the nearest is named), a missing one, a wrong type or a value outside the limits.
    """
    if isinstance(values, cls):
        return values
    given = convert_fields(cls, values, prefix)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.init and field.name not in given and default_of(field) is dataclasses.MISSING:
            help = limits_of(field).help
            raise UserError(dotted(prefix, field.name), None, f"must be set{f' ({help})' if help else ''}")
    return _checked(lambda: cls(**given), prefix)


def convert_fields(cls: type, values: Any, prefix: str = "") -> dict[str, Any]:
    """The given fields of the part `cls`, each converted and within its limits: the first half of `build`."""
    hints = annotations(cls)
    if isinstance(values, FlagText) or not (isinstance(values, Mapping) or hasattr(values, "items")):
        raise UserError(prefix, values, f"is a section: set one of its fields ({', '.join(hints)})")
    for key in values:
        if key not in hints:
            raise UserError(dotted(prefix, str(key)), values[key], f"no such field; {nearest(str(key), hints)}")
    converted = {}
    for field in dataclasses.fields(cls):
        if field.name in values:
            name = dotted(prefix, field.name)
            limits = limits_of(field)
            converted[field.name] = convert(hints[field.name], values[field.name], name, limits.form)
            check_limits(limits, converted[field.name], name)
            if not limits.subnormal:
                check_survives_float32(limits, converted[field.name], name)
    return converted


def patch(part: Part, changes: Any, prefix: str = "") -> Part:
    """`part` with some fields changed; converted and checked as `build` does."""
    given = convert_fields(type(part), changes, prefix)
    return _checked(lambda: dataclasses.replace(part, **given), prefix)  # type: ignore[type-var]


def _checked(make: Callable[[], Part], prefix: str) -> Part:
    """What `make` gives, after its own `check`; a refusal's field is named from outside `prefix`."""
    try:
        part = make()
        if isinstance(part, WithCheck):
            part.check()
    except UserError as refusal:
        raise (refusal.under(prefix) if prefix else refusal) from None
    return part


def to_json(value: Any) -> Any:
    """A part, or any value of one, as what JSON holds: dicts, lists, numbers, text and null. `build` reads it back."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, Mapping | LikeMapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return value.item() if hasattr(value, "item") else value
