"""What a notebook gives to a public function: refused by the argument's name where it is of the wrong kind."""

import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TextIO, TypeVar

from vitzoo.errors import UserError
from vitzoo.paths import current_folder

P = ParamSpec("P")
R = TypeVar("R")

LARGEST = 2**32 - 1
WORDS = {
    str: "text",
    Path: "a path",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "none",
    Sequence: "a list",
    Iterable: "a list",
    Mapping: "a dict",
    dict: "a dict",
}


def checked(**least: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose arguments are looked at before it is called, by the types that it declares.

    Args:
        least: of arguments that are integers, the smallest.

    Raises:
        UserError: by the function, of an argument of another type or below its smallest, or where the current folder is
            gone; one that is missing, or that the function hasn't, is Python's own TypeError.
    """

    def of(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                parameter = signature.parameters[name]
                if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                    check_argument(name, value, _hints(function)[name], least.get(name))
            current_folder()
            return function(*args, **kwargs)

        return call

    return of


@functools.cache
def _hints(function: Callable) -> dict[str, Any]:
    return typing.get_type_hints(function)


def check_argument(name: str, value: Any, annotation: Any, least: int | None = None) -> None:
    """Refuses an argument of another type than `annotation`, or an integer outside `least` to 2³² - 1."""
    members = _members(annotation)
    if not any(_is_a(value, member) for member in members):
        words = list(dict.fromkeys(map(_in_words, members)))
        either = words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, or {words[-1]}"
        shown = "None" if value is None else value
        raise UserError(name, shown, f"is of the type {type(value).__name__}; must be {either}")
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if least is not None and int(value) < least:
            raise UserError(name, value, f"must be at least {least}")
        if int(value) > LARGEST:
            raise UserError(name, value, f"must be at most {LARGEST:,}")


def _members(annotation: Any) -> list[Any]:
    """The types that an annotation allows, one by one."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [one for member in typing.get_args(annotation) for one in _members(member)]
    return [annotation]


def _in_words(member: Any) -> str:
    kind = typing.get_origin(member) or member
    of_texts = " of texts" if typing.get_args(member) == (str,) else ""
    return WORDS.get(kind, getattr(kind, "__name__", str(kind))) + of_texts


def _is_a(value: Any, member: Any) -> bool:
    kind, items = typing.get_origin(member) or member, typing.get_args(member)
    if kind is Any:
        return True
    if kind is Path:
        return isinstance(value, os.PathLike)
    if kind in (int, float):
        return isinstance(value, numbers.Integral if kind is int else numbers.Real) and not isinstance(value, bool)
    if kind in (Sequence, Iterable):
        if not isinstance(value, kind) or isinstance(value, str | bytes | bytearray):
            return False
        looked = value if items and isinstance(value, list | tuple) else ()  # looking at others may use them up
        return all(any(_is_a(one, wanted) for wanted in _members(items[0])) for one in looked)
    if kind is TextIO:
        return hasattr(value, "write")
    return not isinstance(kind, type) or isinstance(value, kind)
