"""How a part of vitzoo declares its settings, and how values become a checked, frozen part.

A *part* (model config, objective, optimizer, schedule, evaluator, data section) is a frozen dataclass whose fields
are made with `setting`. `build` turns a dict of values, from a file or from flags, into one; `to_json` turns it back.
"""

import ast
import contextlib
import dataclasses
import functools
import math
import numbers
import re
import struct
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from vitzoo import literals
from vitzoo.errors import UserError, as_text
from vitzoo.hints import closest, misspelt

Part = TypeVar("Part")


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a value may be, beyond its type."""

    help: str
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    choices: Sequence[str] | None = None
    form: str = ""  # of several values, what each is: HEIGHT,WIDTH
    subnormal: bool = False  # what float32 takes for 0 is allowed: whoever reads it knows of this
    execution: bool = False  # may differ when a run is resumed: it changes how, not what, is computed


def setting(default: Any = dataclasses.MISSING, help: str = "", *, factory: Any = dataclasses.MISSING, **limits) -> Any:
    """A dataclass field with a help text and limits: `minimum`, `above`, `maximum`, `below`, `choices`, `form`,
    `subnormal`, `execution`.
    """
    return dataclasses.field(default=default, default_factory=factory, metadata={"limits": Limits(help, **limits)})


def limits_of(field: dataclasses.Field) -> Limits:
    """The limits a field was declared with; none for a plain dataclass field."""
    return field.metadata.get("limits", Limits(""))


class Text(str):
    """A value typed on a command line, still to be read as whatever type its field has.

    A plain `str`, as a file holds it, is a string and nothing else: `total_steps = "10"` in a file is refused.
    """


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


LARGEST_INTEGER = 2**31 - 1  # steps, seeds and sizes cross to the device as 32-bit integers
LARGEST_NUMBER = 3.4028234e38  # of float32, in which is computed
SMALLEST_NUMBER = 2.0**-126  # of float32 above 0 with all its digits; below it processors compute with 0
LARGEST_BITS = 1024  # of any integer, as large as floats of 64 bits go
DEEPEST = 20  # levels of a config
MOST_VALUES = 1_000_000  # of a config


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the known word closest to `name`, or all of them."""
    words = [word for word in dict.fromkeys(known) if word]
    near = closest(name, words) or misspelt(name, words, least=0.6)
    return f"did you mean {near}?" if near else f"known: {', '.join(sorted(words)) or 'none'}"


def dotted(prefix: str, name: str) -> str:
    """`name` as seen from outside the section `prefix`."""
    return f"{prefix}.{name}" if prefix else name


# ---------------------------------------------------------------------------------------------------- one value


def convert(annotation: Any, value: Any, field: str, form: str = "") -> Any:
    """`value` as the type `annotation` says, or refused.

    Args:
        annotation: a field's type.
        value: from a file, or from a flag as `Text`.
        field: its name.
        form: of several values, what each is, for the message: `HEIGHT,WIDTH`.

    An integer is fine for a float; a bool for a number, a float for an integer, NaN and infinity are refused.
    `Text`, from a flag, is read by the type: `1e3` is no integer, `true`, `false`, `1` and `0` are booleans and `no`
    is not; tuples are split at commas, `none` is for optional fields, a dict is `key:number,key:number` or a literal.

    Raises:
        UserError: names `field`, the value and what would be right.
    """
    origin = typing.get_origin(annotation)
    if annotation is Any:
        if isinstance(value, Text):
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


def literal(text: str) -> Any:
    """What a flag's text most plainly is, where no type says: a number, true, false, none, a list, or else a string."""
    lowered = text.strip().lower()
    if lowered in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[lowered]
    if re.fullmatch("[0-9.eE+-]+", lowered):
        return _plain_number(text)
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = ast.literal_eval(tree)
        plainly = isinstance(value, str | tuple | list | dict) and _are_decimals(tree, text.strip())
        return plain(value) if plainly else str(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError, UserError):
        return str(text)


def _plain_number(text: str) -> int | float | str:
    """A number where a text writes one that can be computed with; else the text, to be refused as what it is."""
    if (integer := literals.integer(text)) is not None:
        return integer
    try:
        number = literals.number(text)
    except ValueError:
        return str(text)
    return str(text) if number is None or not math.isfinite(number) else number


def _are_decimals(tree: ast.AST, text: str) -> bool:
    """Whether all numbers of an expression are written as `literals` reads them."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) in (int, float)]
    return not any(isinstance(_plain_number(ast.get_source_segment(text, node) or ""), str) for node in found)


def plain(value: Any, field: str = "") -> Any:
    """A value of a config as what JSON can hold: containers (lists, ConfigDicts) as tuples and dicts of their own,
    NumPy's and JAX's single numbers as Python's.

    Args:
        value: as a file states it.
        field: its name.

    Raises:
        UserError: it is, or holds, something else, such as a set, bytes, an array or a function; a key is no text; it
            holds itself or is nested as no config is.
    """
    return _Plain().value(value, field, 0)


class _Plain:
    def __init__(self) -> None:
        self.count = 0

    def value(self, value: Any, field: str, depth: int) -> Any:
        self.count += 1
        if depth > DEEPEST or self.count > MOST_VALUES:
            name = ".".join(field.split(".")[:3]) or "config"
            raise UserError(name, None, "is nested too deeply, or holds itself; a config is a few levels of dicts")
        if not isinstance(value, Mapping | type) and hasattr(value, "to_dict"):
            value = value.to_dict()
        if isinstance(value, Mapping):
            return {self.key(key, field): self.value(value[key], dotted(field, str(key)), depth + 1) for key in value}
        if isinstance(value, list | tuple):
            return tuple(self.value(item, field, depth + 1) for item in value)
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()
        if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
            raise UserError(field or "config", value, "is too large a number")
        if isinstance(value, bool | int | float | str | None):
            return value
        if isinstance(value, PurePath):
            return str(value)
        kinds = "a setting is a number, text, true, false, none, a list, or a dict"
        raise UserError(field or "config", value, f"is of the type {type(value).__name__}; {kinds}")

    def key(self, key: Any, field: str) -> str:
        if isinstance(key, str):
            return key
        raise UserError(
            dotted(field, as_text(key)), None, f"a setting's name is text; this is of the type {type(key).__name__}"
        )


def _convert_bool(_, value: Any, field: str) -> bool:
    if isinstance(value, Text) and value.lower() in ("true", "1", "false", "0"):
        return value.lower() in ("true", "1")
    if isinstance(value, bool):
        return value
    raise UserError(field, value, "must be true or false")


def _convert_int(_, value: Any, field: str) -> int:
    number: float | None = None
    if isinstance(value, Text):
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
        if isinstance(value, Text):
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
    if value is not None and not (isinstance(value, Text) and value.lower() == "none"):
        raise UserError(field, value, "must be none")


def _convert_sequence(arguments: tuple, value: Any, field: str) -> tuple:
    pairs = bool(arguments) and len(typing.get_args(arguments[0])) == 2 and arguments[-1] is Ellipsis
    if isinstance(value, Text):
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


def _list_from_text(text: Text, pairs: bool, field: str) -> Any:
    # a written-out list keeps commas within its items; other brackets are an item's own (a pattern's)
    if text.strip()[:1] in ("(", "[") and isinstance(written := literal(text), tuple):
        return written
    if pairs:
        return _mapping_from_text(text, field)
    return tuple(Text(part) for part in (one.strip(" \t\r\n") for one in text.split(",")) if part)


def _convert_mapping(arguments: tuple, value: Any, field: str) -> dict:
    if isinstance(value, Text):
        value = _mapping_from_text(value, field)
    if not (isinstance(value, Mapping) or hasattr(value, "to_dict")):
        raise UserError(field, value, "must be a dict (in a flag: key:value,key:value)")
    key_type, item_type = arguments or (str, Any)
    items = {str(key): convert(item_type, item, dotted(field, str(key))) for key, item in value.items()}
    return {convert(key_type, Text(key), field): item for key, item in items.items()}  # JSON's keys are text


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
    return {key.strip(): Text(item.strip()) for key, item in entries}


def _convert_choice(choices: tuple, value: Any, field: str) -> Any:
    for choice in choices:
        if value == choice or (isinstance(value, Text) and value == str(choice)):
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
    if isinstance(value, Text):
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


# ------------------------------------------------------------------------------------------------------ a part


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
    if isinstance(values, Text) or not (isinstance(values, Mapping) or hasattr(values, "items")):
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
                _check_survives_float32(limits, converted[field.name], name)
    return converted


def patch(part: Part, changes: Any, prefix: str = "") -> Part:
    """`part` with some fields changed; converted and checked as `build` does."""
    given = convert_fields(type(part), changes, prefix)
    return _checked(lambda: dataclasses.replace(part, **given), prefix)  # type: ignore[type-var]


def _checked(make: Callable[[], Part], prefix: str) -> Part:
    """What `make` gives, after its own `check`; a refusal's field is named from outside `prefix`."""
    try:
        part = make()
        if hasattr(part, "check"):
            part.check()
    except UserError as refusal:
        raise (refusal.under(prefix) if prefix else refusal) from None
    return part


def check_limits(limits: Limits, value: Any, field: str) -> None:
    """Refuses a value (or one of a tuple's or a dict's values) outside its limits."""
    if isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            check_limits(limits, item, field)
        return
    if limits.choices is not None and isinstance(value, str) and value not in limits.choices:
        raise UserError(field, value or "''", nearest(value, limits.choices))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    bounds = (
        ("at least", limits.minimum, lambda bound: value >= bound),
        ("above", limits.above, lambda bound: value > bound),
        ("at most", limits.maximum, lambda bound: value <= bound),
        ("below", limits.below, lambda bound: value < bound),
    )
    if not all(bound is None or holds(bound) for _, bound, holds in bounds):
        said = " and ".join(f"{word} {_shown_bound(bound)}" for word, bound, _ in bounds if bound is not None)
        raise UserError(field, value, f"must be {said}")
    if isinstance(value, int) and limits.maximum is None and value > LARGEST_INTEGER:
        raise UserError(field, value, f"must be at most {LARGEST_INTEGER:,}")
    if limits.maximum is None and abs(value) > LARGEST_NUMBER:
        raise UserError(field, value, f"must be at most {LARGEST_NUMBER:.2g}, the largest number of float32")


def _check_survives_float32(limits: Limits, value: Any, field: str) -> None:
    """Refuses what lies within its limits and, in float32, becomes 0 or the limit that it may not be."""
    if isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _check_survives_float32(limits, item, field)
    if not isinstance(value, float):
        return
    if 0 < abs(value) < SMALLEST_NUMBER:
        smallest = f"{SMALLEST_NUMBER:.8g}"
        least = f"-{smallest} or below" if value < 0 else f"{smallest} or above"
        zero = "" if limits.above == 0 else "0, or "
        raise UserError(field, value, f"is too near to 0 for float32, in which it becomes 0; write {zero}{least}")
    for bound, word, step in ((limits.above, "more", 1), (limits.below, "less", -1)):
        if bound and _float32(value) == bound:
            (bits,) = struct.unpack("<i", struct.pack("<f", bound))
            (nearest_allowed,) = struct.unpack("<f", struct.pack("<i", bits + step))
            message = (
                f"is too near to {bound:g} for float32, in which it becomes {bound:g}; write {nearest_allowed:.8g}"
            )
            raise UserError(field, value, f"{message} or {word}")


def _float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _shown_bound(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def to_json(value: Any) -> Any:
    """A part, or any value of one, as what JSON holds: dicts, lists, numbers, text and null. `build` reads it back."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, Mapping) or hasattr(value, "to_dict"):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return value.item() if hasattr(value, "item") else value
