"""A pickle's instructions carried out on plain values alone, without Python's unpickler: nothing can be imported,
called or changed that isn't made here, and nothing grows beyond what the pickle holds."""

import dataclasses
import pickletools
from collections.abc import Callable, Iterable
from typing import Any

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
