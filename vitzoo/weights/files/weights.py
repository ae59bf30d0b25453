"""A file or folder of published weights: its arrays by name, looked at one by one, and what lies beside it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from vitzoo.data.text.lines import HALF, is_whole
from vitzoo.errors import UserError
from vitzoo.paths import contents
from vitzoo.strict_json import JSON, parsed

LARGEST = 2**26  # bytes; a model of 10,000 arrays has an index of about a million
DEEPEST = 32  # lists and objects within each other
SHOWN = 80  # characters of a value in a message
KINDS: dict[type, str] = {dict: "an object of settings", list: "a list", str: "text", type(None): "null"}
"""In words; all others are numbers, or true or false."""


@overload
def read_json(file: Path, kind: type[dict] = dict) -> dict[str, JSON]: ...
@overload
def read_json(file: Path, kind: type[list]) -> list[JSON]: ...
def read_json(file: Path, kind: type[dict] | type[list] = dict) -> dict[str, JSON] | list[JSON]:
    """The content of a file.

    Args:
        file: which must be there.
        kind: `dict` or `list`, what it must hold.

    Raises:
        UserError: it can't be read, is no JSON, names a field twice, is nested too deeply or too large, holds half a
            character or another kind of value.
    """
    try:
        if file.stat().st_size > LARGEST:
            raise ValueError(f"has more than {LARGEST:,} bytes")
        content = parsed(contents(file).decode("utf-8-sig"), finite=True)
        _check(content)
    except UnicodeDecodeError:
        raise UserError(str(file), None, "can't be read: is not UTF-8") from None
    except OSError as error:
        raise UserError(str(file), None, f"can't be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(str(file), None, f"can't be read: {error}") from None
    if not isinstance(content, kind):
        found = KINDS.get(type(content), str(content)[:SHOWN])
        raise UserError(str(file), None, f"holds {found}, where {KINDS[kind]} is right")
    return content


def _check(content: Any) -> None:
    """Refuses text that isn't whole, and nesting that what looks at the content couldn't follow."""
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        for value in level:
            if isinstance(value, str) and not is_whole(value):
                raise ValueError(f"{value[:40]!a} {HALF}")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in ([*value, *value.values()] if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ValueError("is nested too deeply")


def shown(value: JSON) -> str:
    """A value in a message, with its type to be seen (`'12'` isn't `12`), shortened."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a value of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."


FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Types of weights."""


class Header(NamedTuple):
    """What a file says of an array before its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Stored(NamedTuple):
    """An array in a file: functions that read it, and that give its shape and type without its numbers."""

    read: Callable[[], np.ndarray]
    header: Callable[[], Header]


def _same(array: np.ndarray) -> np.ndarray:
    return array


class Tensors(Mapping[str, np.ndarray]):
    """Arrays by name, read or mapped when looked at and not kept."""

    def __init__(self, stored: Mapping[str, Stored]):
        self._stored = stored

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "Tensors":
        """Arrays in memory."""
        return cls({name: Stored(partial(_same, a), partial(Header, a.shape, a.dtype)) for name, a in arrays.items()})

    def __getitem__(self, name: str) -> np.ndarray:
        return self._stored[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __contains__(self, name: object) -> bool:
        return name in self._stored

    def __len__(self) -> int:
        return len(self._stored)

    def __or__(self, other: "Tensors") -> "Tensors":
        """These and others; of a name that both have, the others."""
        return Tensors({**self._stored, **other._stored})

    def without(self, prefix: str) -> "Tensors":
        """Those below a prefix, named without it."""
        return Tensors({name.removeprefix(prefix): self._stored[name] for name in self if name.startswith(prefix)})

    def header(self, name: str) -> Header:
        """Shape and type of an array, without its numbers where the file has them apart."""
        return self._stored[name].header()


def header_of(tensors: Mapping[str, np.ndarray], name: str) -> Header:
    """Shape and type of an array by name."""
    if isinstance(tensors, Tensors):
        return tensors.header(name)
    return Header(tensors[name].shape, tensors[name].dtype)


@dataclasses.dataclass(frozen=True)
class Weights:
    """Published weights as they lie on disk.

    Attributes:
        name: as they were asked for.
        tensors: the arrays by name.
        folder: where the file lies, and its companions.
        config: the content of `config.json`, or what stands for it; empty where there is none.
        besides: what else the file holds, plain values (hyper-parameters of a training).
        notes: what was taken where the file leaves a choice.
        config_name: of `config`, for messages.
    """

    name: str
    tensors: Tensors
    folder: Path
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    besides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    config_name: str = "config.json"

    def shape(self, name: str, dimensions: int = 0, *, empty: bool = False) -> tuple[int, ...]:
        """Of an array.

        Args:
            name: of the array.
            dimensions: how many it must have; 0 is any number.
            empty: whether it may hold no numbers.

        Raises:
            UserError: there is none of this name, or it has other dimensions, or one of no length.
        """
        if name not in self.tensors:
            raise self.refused(f"lacks {name}")
        shape = self.tensors.header(name).shape
        if dimensions and len(shape) != dimensions:
            raise self.refused(f"has {name} of shape {shape}, where {dimensions} dimensions are right")
        if 0 in shape and not empty:
            raise self.refused(f"has {name} of shape {shape}, which holds no numbers")
        return shape

    def numbers(self, name: str) -> np.ndarray:
        """An array whose numbers are looked at: of a type of weights, and finite.

        Raises:
            UserError: it isn't.
        """
        if why := unusable(self.tensors.header(name)):
            raise self.refused(f"has {name} {why}")
        array = self.tensors[name]
        if not finite(array):
            raise self.refused(f"has {name} {NOT_FINITE}")
        return array

    def depth(self, prefix: str, suffix: str = ".") -> int:
        """How many layers there are by names `prefix` N `suffix` ..., where N counts from 0; 0 without any.

        Raises:
            UserError: a layer before the last is missing.
        """
        numbers = {name.removeprefix(prefix).partition(suffix)[0] for name in self.tensors if name.startswith(prefix)}
        for layer in range(len(numbers)):
            if str(layer) not in numbers:
                rest = [number for number in numbers if number.isdecimal() and len(number) < 10 and int(number) > layer]
                if rest:
                    raise self.refused(f"has {prefix}{min(rest, key=int)}{suffix} and lacks {prefix}{layer}{suffix}")
                return layer
        return len(numbers)

    def with_settings(self, file: Path) -> "Weights":
        """The same with another file's settings in the place of `config.json`'s; none where it isn't there."""
        content = read_json(file) if file.is_file() else {}
        return dataclasses.replace(self, config=content, config_name=file.name)

    def companion(self, name: str) -> Path | None:
        """A file beside it, if it is there."""
        path = self.folder / name
        return path if path.is_file() else None

    def refused(self, message: str) -> UserError:
        """What to raise: it can't be used, and why."""
        return UserError("checkpoint", self.name, message)


NOT_FINITE = "with numbers that aren't finite (NaN, or infinite as float32)"


def unusable(array: np.ndarray | Header) -> str:
    """Why an array can't be weights, whatever its numbers; "" where it can."""
    if array.dtype.name not in FLOATS:
        return f"of type {array.dtype}, where {', '.join(FLOATS)} are right"
    return "" if 0 not in array.shape else f"of shape {array.shape}, which holds no numbers"


def finite(array: np.ndarray) -> bool:
    """Whether all numbers of a type of weights are finite as float32."""
    if array.dtype.itemsize < 4:  # for which NumPy's minimum is slow
        return bool(np.isfinite(array).all())
    with np.errstate(invalid="ignore", over="ignore"):
        return all(np.isfinite(np.float32(end)) for end in (array.min(), array.max()))
