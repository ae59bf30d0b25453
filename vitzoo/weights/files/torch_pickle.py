"""A pickle as torch writes it, read with a list of what may be named. Nothing of it is ever called.

Every name that a pickle asks for stands for a function of this module, which makes a description (of a tensor, a dict)
or refuses. So a file can hold nothing but plain containers, numbers, text and tensors. Its instructions are carried out
on plain values alone, without Python's unpickler: nothing can be imported, called or changed that isn't made here, and
nothing grows beyond what the pickle holds.
"""

import dataclasses
import pickletools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeGuard

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
    make: "Callable[..., Value] | None" = None


Plain: TypeAlias = bool | int | float | str | bytes | None
Key: TypeAlias = Plain | tuple[Plain, ...]
Value: TypeAlias = "Plain | list[Value] | tuple[Value, ...] | dict[Key, Value] | Named | Opaque | Storage | Tensor"
"""What a pickle of weights holds."""


def dictionary(pairs: Iterable[tuple[Value, Value]], into: dict[Key, Value] | None = None) -> dict[Key, Value]:
    """A dict of pairs, whose keys are plain: to hash what is nested without end would end the process."""
    into = {} if into is None else into
    for key, value in pairs:
        if not _is_key(key):
            raise Unreadable(f"has a {type(key).__name__} for a key")
        parts = key if isinstance(key, tuple) else (key,)
        if any(type(part) is int and part.bit_length() > MOST_KEY_BITS for part in parts):
            raise Unreadable(f"has an integer of more than {MOST_KEY_BITS} bits for a key")
        if key in into:
            raise Unreadable("sets a key of a dict twice")
        into[key] = value
    return into


def _is_key(value: Value) -> TypeGuard[Key]:
    parts = value if isinstance(value, tuple) else (value,)
    return len(parts) <= LONGEST_KEY and all(isinstance(part, PLAIN) for part in parts)


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
        stack, marks, memo: values, where groups of these begin, and values by number.
    """

    def __init__(self, content: bytes, named: Callable[[str, str], Named], stored: Callable[[Value], Value]):
        self._content, self._named, self._stored = content, named, stored
        self.stack: list[Value] = []
        self.marks: list[int] = []
        self.memo: dict[int, Value] = {}
        self._left = len(content)  # items that calls may copy: each was put there by a byte at least
        self.steps = 0

    def run(self) -> Value:
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
                return self.stack.pop()
            if name in VALUES:
                if type(argument) is int and argument.bit_length() > MOST_BITS:
                    raise Unreadable(f"has an integer of {argument.bit_length():,} bits, which no weights need")
                self.stack.append(argument)
            elif name in MAKES:
                self.stack.append(MAKES[name](self, argument))
            elif name in CHANGES:
                CHANGES[name](self, argument)
            else:
                raise Unreadable(f"has the instruction {name}, which no weights need")
        raise Unreadable("is cut off")

    def since_mark(self) -> list[Value]:
        """What was put on the stack since the last mark, taken off it."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def pop(self) -> None:
        """Takes off the last mark or value."""
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.stack.pop()

    def keep(self, place: int | None) -> None:
        """Remembers the last value."""
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def extend(self, items: list[Value]) -> None:
        """Appends to the last value, a list."""
        if type(self.stack[-1]) is not list:
            raise Unreadable(f"appends to a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(items)

    def update(self, items: list[Value]) -> None:
        """Sets keys and values, one after the other, of the last value, a dict."""
        if not isinstance(self.stack[-1], dict):
            raise Unreadable(f"sets items of a {type(self.stack[-1]).__name__}")
        dictionary(_pairs(items), self.stack[-1])

    def found(self, module: object, name: object) -> Named:
        """What a module's name stands for."""
        if not isinstance(name, str) or not isinstance(module, str):
            raise Unreadable(f"has a {type(name).__name__} of a {type(module).__name__} for a name")
        return self._named(module, name)

    def outside(self) -> Value:
        """What stands for something that lies outside the pickle."""
        return self._stored(self.stack.pop())

    def call(self) -> Value:
        """What a call makes."""
        arguments, called = self.stack.pop(), self.stack.pop()
        if not isinstance(called, Named) or called.make is None or not isinstance(arguments, tuple):
            raise Unreadable(f"calls {shortened(called.name) if isinstance(called, Named) else type(called).__name__}")
        self._left -= len(arguments) + sum(len(item) for item in arguments if isinstance(item, tuple | list | dict))
        if self._left < 0:
            raise Unreadable("copies its content over and over")
        try:
            return called.make(*arguments)
        except (TypeError, ValueError) as error:
            raise Unreadable(f"calls {shortened(called.name)} with what it doesn't take ({error})") from None

    def call_with_names(self) -> Value:
        """The same, where there are no named arguments."""
        if self.stack.pop():
            raise Unreadable("calls something with named arguments")
        return self.call()

    def change(self) -> None:
        """Passes over a state, which only of what was passed over itself may be left out."""
        self.stack.pop()
        changed = self.stack[-1]
        if not isinstance(changed, Opaque | Ordered):
            shown = shortened(changed.name) if isinstance(changed, Named) else type(changed).__name__
            raise Unreadable(f"changes {shown}")


VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
"""Instructions whose argument is the value."""
MAKES: dict[str, Callable[[Machine, Any], Value]] = {
    "NONE": lambda machine, _: None,
    "NEWTRUE": lambda machine, _: True,
    "NEWFALSE": lambda machine, _: False,
    "EMPTY_DICT": lambda machine, _: {},
    "EMPTY_TUPLE": lambda machine, _: (),
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_SET"), lambda machine, _: []),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, place: machine.memo[place]),
    "DUP": lambda machine, _: machine.stack[-1],
    "TUPLE": lambda machine, _: tuple(machine.since_mark()),
    "TUPLE1": lambda machine, _: (machine.stack.pop(),),
    "TUPLE2": lambda machine, _: (machine.stack.pop(-2), machine.stack.pop()),
    "TUPLE3": lambda machine, _: (machine.stack.pop(-3), machine.stack.pop(-2), machine.stack.pop()),
    **dict.fromkeys(("LIST", "FROZENSET"), lambda machine, _: machine.since_mark()),
    "DICT": lambda machine, _: dictionary(_pairs(machine.since_mark())),
    "GLOBAL": lambda machine, names: machine.found(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.found(machine.stack.pop(-2), machine.stack.pop()),
    "BINPERSID": lambda machine, _: machine.outside(),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda machine, _: machine.call()),
    "NEWOBJ_EX": lambda machine, _: machine.call_with_names(),
}
"""Those that make one; sets become lists, since what is in them may not be hashed."""
CHANGES: dict[str, Callable[[Machine, Any], Any]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, _: None),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "POP": lambda machine, _: machine.pop(),
    "POP_MARK": lambda machine, _: machine.since_mark(),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine.keep),
    "APPEND": lambda machine, _: machine.extend([machine.stack.pop()]),
    **dict.fromkeys(("APPENDS", "ADDITEMS"), lambda machine, _: machine.extend(machine.since_mark())),
    "SETITEM": lambda machine, _: machine.update([machine.stack.pop(-2), machine.stack.pop()]),
    "SETITEMS": lambda machine, _: machine.update(machine.since_mark()),
    "BUILD": lambda machine, _: machine.change(),
}
"""Those that change what is there, or nothing."""


def _pairs(items: list[Value]) -> Iterable[tuple[Value, Value]]:
    """Keys and values, which stand one after the other."""
    return zip(items[::2], items[1::2], strict=True)


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


def read(content: bytes) -> Value:
    """The pickle's content: dicts, lists, tuples, numbers, text, `Tensor`s and `Opaque`s."""
    return read_counted(content)[0]


def read_counted(content: bytes) -> tuple[Value, int]:
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


def _storage(told: Value) -> Storage:
    """Storages are named, not pickled: ("storage", kind, key, device, count)."""
    if not isinstance(told, tuple) or len(told) != 5:
        raise Unreadable("names a storage in an unknown way")
    word, kind, key, _, count = told
    if word != "storage" or not isinstance(kind, Named):
        raise Unreadable("names a storage in an unknown way")
    if (dtype := STORAGES.get(kind.name)) is None:
        raise Unreadable(f"has numbers of the kind {shortened(kind.name)}, which aren't read")
    if not isinstance(key, str) or not key.isalnum() or len(key) > LONGEST_NAME or not _is_size(count):
        raise Unreadable("names a storage in an unknown way")
    return Storage(key, np.dtype(dtype), count)


def _is_size(value: Value) -> TypeGuard[int]:
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
