"""The argument of a config, what follows the colon in `vit/fashion_mnist:long`."""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vitzoo.argument_types import checked
from vitzoo.errors import UserError

_asked: contextvars.ContextVar[list[list[str]] | None] = contextvars.ContextVar("asked", default=None)


class NoSuchChoice(UserError):
    """An argument that is none of a config's choices."""


@checked()
def choice(arg: str, table: Mapping[str, Any] | Sequence[str]) -> Any:
    """What `arg` stands for in `table`; a config with a few variants calls it with its argument, or a part of that.

        def get_config(arg="short"):
            epochs = vitzoo.config.choice(arg, {"short": 12, "long": 40})

    Args:
        arg: as the user wrote it.
        table: a dict, whose value is returned, or a sequence of names, of which `arg` itself is.

    Raises:
        UserError: it is not in the table; all choices are named, and the config where that is known.
    """
    names = [str(name) for name in table]
    if (asked := _asked.get()) is not None and names not in asked:
        asked.append(names)
    if arg not in names:
        raise NoSuchChoice("config", arg, f"there is no {arg!r}; take one of {', '.join(names)}")
    return table[arg] if isinstance(table, Mapping) else arg


@contextlib.contextmanager
def choices_asked() -> Iterator[list[list[str]]]:
    """Within the block, the choices of every call of `choice`, in order, each table once."""
    asked: list[list[str]] = []
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)
