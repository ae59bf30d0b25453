"""A pickle as torch writes it, read with a list of what may be named. Nothing of it is ever called.

Every name that a pickle asks for stands for a function of this module, which makes a description (of a tensor, a dict)
or refuses. So a file can hold nothing but plain containers, numbers, text and tensors. Its instructions are carried out
on plain values alone, without Python's unpickler: nothing can be imported, called or changed that isn't made here, and
nothing grows beyond what the pickle holds.
"""

import dataclasses
import pickletools
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

PLAIN = (str, bytes, int, float, type(None))  # what a key may be, or consist of
MOST_STEPS = 2_000_000  # instructions; a model of 10,000 arrays has about 300,000
MOST_BITS, MOST_KEY_BITS = 1024, 64  # of an integer; the longest in use are states of random generators, of 128
LONGEST_KEY = 16  # parts of a key that is a tuple: each time that one is used, all of it is hashed
LONGEST_SHOWN = 60  # characters of a name in a message


class Unreadable(Exception):
    """A pickle asks for something that no file of weights needs, or is damaged."""


class Opaque:
    """Something that was passed over."""

    __slots__ = ()


class Ordered(dict):
    """An OrderedDict of the file; what torch keeps beside its items (`_metadata`) is passed over."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Named:
    """What a name of the file stands for.

    Attributes:
        name: in the file.
        make: a description from a call's arguments; None where it can't be called.
    """

    name: str
    make: Callable[..., Any] | None = None


def dictionary(pairs: Iterable[tuple[Any, Any]], into: dict | None = None) -> dict:
    """A dict of pairs, whose keys are plain: to hash what is nested without end would end the process."""
    into = {} if into is None else into
    for key, value in pairs:
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) > LONGEST_KEY or not all(isinstance(part, PLAIN) for part in parts):
            raise Unreadable(f"has a {type(key).__name__} for a key")
        if any(type(part) is int and part.bit_length() > MOST_KEY_BITS for part in parts):
            raise Unreadable(f"has an integer of more than {MOST_KEY_BITS} bits for a key")
        if key in into:
            raise Unreadable("sets a key of a dict twice")
        into[key] = value
    return into


def shortened(name: str) -> str:
    """A name of the file in a message: short, and in one line."""
    return (name if name.isprintable() else ascii(name))[:LONGEST_SHOWN]


class Machine:
    """Runs one pickle.

    Args:
        content: the pickle.
        named: what a module's name stands for.
        stored: a description of what a pickle says lies outside it.

    Attributes:
        steps: instructions carried out.
    """

    def __init__(self, content: bytes, named: Callable[[str, str], Named], stored: Callable[[Any], Any]):
        self._content, self._named, self._stored = content, named, stored
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._left = len(content)  # items that calls may copy: each was put there by a byte at least
        self.steps = 0

    def run(self) -> Any:
        """What the pickle holds.

        Raises:
            Unreadable: it has an instruction that weights don't need.
            Exception: it is damaged, which shows itself in any way.
        """
        for instruction, argument, _ in pickletools.genops(self._content):
            name = instruction.name
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Unreadable(f"has more than {MOST_STEPS:,} instructions, which no weights need")
            if name == "STOP":
                return self._stack.pop()
            if name in VALUES:
                if type(argument) is int and argument.bit_length() > MOST_BITS:
                    raise Unreadable(f"has an integer of {argument.bit_length():,} bits, which no weights need")
                self._stack.append(argument)
            elif name in CONSTANTS:
                self._stack.append(CONSTANTS[name]())
            elif name in STEPS:
                STEPS[name](self, argument)
            elif name not in NOTHING:
                raise Unreadable(f"has the instruction {name}, which no weights need")
        raise Unreadable("is cut off")

    def _mark(self, _: Any) -> None:
        self._marks.append(len(self._stack))

    def _since_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _pop(self, _: Any) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def _pop_mark(self, _: Any) -> None:
        self._since_mark()

    def _twice(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def _keep(self, place: int | None) -> None:
        self._memo[len(self._memo) if place is None else place] = self._stack[-1]

    def _recall(self, place: int) -> None:
        self._stack.append(self._memo[place])

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _tuple_of_1(self, _: Any) -> None:
        self._stack.append((self._stack.pop(),))

    def _tuple_of_2(self, _: Any) -> None:
        self._stack.append((self._stack.pop(-2), self._stack.pop()))

    def _tuple_of_3(self, _: Any) -> None:
        self._stack.append((self._stack.pop(-3), self._stack.pop(-2), self._stack.pop()))

    def _list(self, _: Any) -> None:
        self._stack.append(self._since_mark())

    def _dict(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(dictionary(zip(items[::2], items[1::2], strict=True)))

    def _append(self, _: Any) -> None:
        self._extend([self._stack.pop()])

    def _appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise Unreadable(f"appends to a {type(self._stack[-1]).__name__}")
        self._stack[-1].extend(items)

    def _set_item(self, _: Any) -> None:
        self._update([self._stack.pop(-2), self._stack.pop()])

    def _set_items(self, _: Any) -> None:
        self._update(self._since_mark())

    def _update(self, items: list[Any]) -> None:
        if not isinstance(self._stack[-1], dict):
            raise Unreadable(f"sets items of a {type(self._stack[-1]).__name__}")
        dictionary(zip(items[::2], items[1::2], strict=True), self._stack[-1])

    def _global(self, names: str) -> None:
        module, _, name = names.partition(" ")
        self._stack.append(self._named(module, name))

    def _stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise Unreadable(f"has a {type(name).__name__} of a {type(module).__name__} for a name")
        self._stack.append(self._named(module, name))

    def _outside(self, _: Any) -> None:
        self._stack.append(self._stored(self._stack.pop()))

    def _call(self, _: Any) -> None:
        arguments, called = self._stack.pop(), self._stack.pop()
        if not isinstance(called, Named) or called.make is None or not isinstance(arguments, tuple):
            raise Unreadable(f"calls {shortened(called.name) if isinstance(called, Named) else type(called).__name__}")
        self._left -= len(arguments) + sum(len(item) for item in arguments if isinstance(item, tuple | list | dict))
        if self._left < 0:
            raise Unreadable("copies its content over and over")
        try:
            self._stack.append(called.make(*arguments))
        except (TypeError, ValueError) as error:
            raise Unreadable(f"calls {shortened(called.name)} with what it doesn't take ({error})") from None

    def _call_with_names(self, _: Any) -> None:
        if self._stack.pop():
            raise Unreadable("calls something with named arguments")
        self._call(None)

    def _change(self, _: Any) -> None:
        self._stack.pop()
        changed = self._stack[-1]
        if not isinstance(changed, Opaque | Ordered):
            raise Unreadable(
                f"changes {shortened(changed.name) if isinstance(changed, Named) else type(changed).__name__}"
            )


VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
"""Instructions whose argument is the value."""
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
}
"""Those that are a value; sets become lists, since what is in them may not be hashed."""
NOTHING = {"PROTO", "FRAME"}
STEPS: dict[str, Callable[[Machine, Any], None]] = {
    "MARK": Machine._mark,
    "POP": Machine._pop,
    "POP_MARK": Machine._pop_mark,
    "DUP": Machine._twice,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine._keep),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine._recall),
    "TUPLE": Machine._tuple,
    "TUPLE1": Machine._tuple_of_1,
    "TUPLE2": Machine._tuple_of_2,
    "TUPLE3": Machine._tuple_of_3,
    "LIST": Machine._list,
    "FROZENSET": Machine._list,
    "DICT": Machine._dict,
    "APPEND": Machine._append,
    "APPENDS": Machine._appends,
    "ADDITEMS": Machine._appends,
    "SETITEM": Machine._set_item,
    "SETITEMS": Machine._set_items,
    "GLOBAL": Machine._global,
    "STACK_GLOBAL": Machine._stack_global,
    "BINPERSID": Machine._outside,
    "REDUCE": Machine._call,
    "NEWOBJ": Machine._call,
    "NEWOBJ_EX": Machine._call_with_names,
    "BUILD": Machine._change,
}


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
