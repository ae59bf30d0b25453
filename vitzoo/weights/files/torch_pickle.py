"""A pickle as torch writes it, read with a list of what may be named. Nothing of it is ever called.

Every name that a pickle asks for stands for a function of this module, which makes a description (of a tensor, a dict)
or refuses. So a file can hold nothing but plain containers, numbers, text and tensors.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from vitzoo.weights.files.pickle_machine import Machine, Named, Opaque, Ordered, Unreadable, dictionary, shortened

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
    "ComplexFloatStorage": np.complex64,
    "ComplexDoubleStorage": np.complex128,
}
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
OPAQUE = {
    ("argparse", "Namespace"),
    ("types", "SimpleNamespace"),
    ("pathlib", "PosixPath"),
    ("pathlib", "WindowsPath"),
    ("pathlib", "Path"),
    ("transformers.training_args", "TrainingArguments"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}
"""Settings of a training and numbers of its progress: passed over, never built."""
MODULES = b"torch.nn.modules"
"""In a pickle of a whole model, whose parts are torch's modules."""
MOST_DIMENSIONS, LARGEST = 64, 2**62
LONGEST_NAME = 100  # characters of a storage's


@dataclasses.dataclass(frozen=True)
class Storage:
    """Where a tensor's numbers are: the entry `data/KEY` of the archive."""

    key: str
    dtype: np.dtype
    count: int


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor as a file describes it; offset and strides count numbers, not bytes."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read(content: bytes) -> Any:
    """The pickle's content: dicts, lists, tuples, numbers, text, `Tensor`s and `Opaque`s."""
    return read_counted(content)[0]


def read_counted(content: bytes) -> tuple[Any, int]:
    """The pickle's content, and how many instructions it took.

    Raises:
        Unreadable: it names anything that isn't on the list, or is damaged.
    """

    def named(module: str, name: str) -> Named:
        found = _named(module, name)
        if found is not None:
            return found
        whole = "; it is a whole model: save its state_dict() instead" if MODULES in content else ""
        raise Unreadable(f"asks for {shortened(f'{module}.{name}')}, which no weights need; it was not loaded{whole}")

    machine = Machine(content, named, _storage)
    try:
        return machine.run(), machine.steps
    except Unreadable:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        said = str(error)[:80] if isinstance(error, ValueError | TypeError | IndexError) else ""
        raise Unreadable(f"is damaged ({type(error).__name__}{': ' * bool(said)}{said})") from None


def _storage(told: Any) -> Storage:
    """Storages are named, not pickled: ("storage", kind, key, device, count)."""
    if not isinstance(told, tuple) or len(told) != 5 or told[0] != "storage" or not isinstance(told[1], Named):
        raise Unreadable("names a storage in an unknown way")
    _, kind, key, _, count = told
    if (dtype := STORAGES.get(kind.name)) is None:
        raise Unreadable(f"has numbers of the kind {shortened(kind.name)}, which aren't read")
    if not isinstance(key, str) or not key.isalnum() or len(key) > LONGEST_NAME or not _is_size(count):
        raise Unreadable("names a storage in an unknown way")
    return Storage(key, np.dtype(dtype), count)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _named(module: str, name: str) -> Named | None:
    if (module, name) in OPAQUE:
        return Named(f"{module}.{name}", lambda *_: Opaque())
    if module == "torch" and (name in DTYPES or name.endswith("Storage")):
        return Named(name)
    makers: dict[tuple[str, str], Callable[..., Any]] = {
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch._utils", "_rebuild_tensor"): _tensor,
        ("torch._utils", "_rebuild_parameter"): _parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
        ("torch", "Size"): _listed,
        ("collections", "OrderedDict"): _ordered,
        ("collections", "defaultdict"): lambda *_: {},
        ("builtins", "set"): _listed,
        ("__builtin__", "set"): _listed,
    }
    make = makers.get((module, name))
    return None if make is None else Named(f"{module}.{name}", make)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Tensor:
    if not isinstance(storage, Storage) or not all(isinstance(sizes, tuple | list) for sizes in (shape, strides)):
        raise ValueError("no storage, shape and strides")
    if len(shape) != len(strides) or len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"{len(shape)} dimensions and {len(strides)} strides")
    if not all(map(_is_size, (offset, *shape, *strides))):
        raise ValueError("a negative size, or none at all")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *_: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise ValueError("no tensor")
    return tensor


def _ordered(items: Any = ()) -> Ordered:
    return Ordered(dictionary(items))


def _listed(items: Any = ()) -> list:
    if not isinstance(items, list | tuple):
        raise ValueError("no list")
    return list(items)
