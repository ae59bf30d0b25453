"""A pickle as torch writes it, read with a list of what may be named. Nothing of it is ever called.

Every name that a pickle asks for becomes an object of this module, which either makes a description (of a tensor, a
dict) or refuses. So a file can hold nothing but plain containers, numbers, text and tensors.
"""

import dataclasses
import io
import pickle
from collections.abc import Callable
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
OPAQUE = {
    ("argparse", "Namespace"),
    ("types", "SimpleNamespace"),
    ("pathlib", "PosixPath"),
    ("pathlib", "Path"),
    ("transformers.training_args", "TrainingArguments"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}
"""Settings of a training and numbers of its progress: passed over, never built."""


class Unreadable(Exception):
    """A pickle asks for something that no file of weights needs, or is damaged."""


@dataclasses.dataclass(frozen=True)
class Storage:
    """Where a tensor's numbers are: the entry `data/KEY` of the archive."""

    key: str
    dtype: np.dtype
    count: int

    def __setstate__(self, state: Any) -> NoReturn:
        raise Unreadable("changes a storage")


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor as a file describes it; offset and strides count numbers, not bytes."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __setstate__(self, state: Any) -> NoReturn:
        raise Unreadable("changes a tensor")


class Opaque:
    """Something that was passed over."""

    __slots__ = ()

    def __new__(cls, *arguments: Any, **more: Any) -> "Opaque":
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None:
        """Forgets what it would hold."""


class Named:
    """What a name of the file stands for: called with the file's arguments, it makes a description."""

    __slots__ = ("_make", "_name")
    _name: str
    _make: Callable[..., Any] | None

    def __init__(self, name: str, make: Callable[..., Any] | None):
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_make", make)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise Unreadable(f"changes {self._name}")

    def __setstate__(self, state: Any) -> NoReturn:
        raise Unreadable(f"changes {self._name}")

    def __call__(self, *arguments: Any) -> Any:
        if self._make is None:
            raise Unreadable(f"calls {self._name}")
        try:
            return self._make(*arguments)
        except (TypeError, ValueError) as error:
            raise Unreadable(f"calls {self._name} with what it doesn't take ({error})") from None


def read(content: bytes) -> Any:
    """The pickle's content: dicts, lists, tuples, numbers, text, `Tensor`s and `Opaque`s.

    Raises:
        Unreadable: it names anything that isn't on the list, or is damaged.
    """
    try:
        return _Reader(io.BytesIO(content)).load()
    except Unreadable:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise Unreadable(f"is damaged ({type(error).__name__}: {error})") from None


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Every name of a file passes here; nothing is imported."""
        found = _named(module, name)
        if found is None:
            raise Unreadable(f"asks for {module}.{name}, which no weights need; it was not loaded")
        return found

    def persistent_load(self, told: Any) -> Storage:
        """Storages are named, not pickled: ("storage", kind, key, device, count)."""
        try:
            tag, kind, key, _, count = told
            dtype = STORAGES[kind._name]
        except (TypeError, ValueError, KeyError, AttributeError):
            raise Unreadable("names a storage of an unknown kind") from None
        if tag != "storage" or not isinstance(key, str) or not key.isalnum() or not isinstance(count, int):
            raise Unreadable("names a storage in an unknown way")
        return Storage(key, np.dtype(dtype), count)


def _named(module: str, name: str) -> Any:
    if (module, name) in OPAQUE:
        return type("Passed", (Opaque,), {"__slots__": ()})  # a class of its own, so that nothing shared can change
    if module == "torch" and name in STORAGES:
        return Named(name, None)
    if module == "torch" and name in DTYPES:
        return Named(name, None)
    makers: dict[tuple[str, str], Callable[..., Any]] = {
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch._utils", "_rebuild_tensor"): _tensor,
        ("torch._utils", "_rebuild_parameter"): _parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
        ("torch", "Size"): tuple,
        ("collections", "OrderedDict"): _ordered,
        ("collections", "defaultdict"): lambda *_: {},
        ("builtins", "set"): _listed,
        ("__builtin__", "set"): _listed,
    }
    make = makers.get((module, name))
    return None if make is None else Named(f"{module}.{name}", make)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Tensor:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, Storage) or len(shape) != len(strides):
        raise ValueError("no storage, shape and strides")
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
        raise ValueError("a negative size")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *_: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise ValueError("no tensor")
    return tensor


def _ordered(items: Any = ()) -> "Ordered":
    return Ordered(items)


def _listed(items: Any = ()) -> list:
    return list(items)


class Ordered(dict):
    """An OrderedDict of the file; what torch keeps beside its items (`_metadata`) is passed over."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        """Forgets it."""
