"""What the user of a config gives: its argument, behind the colon in `vit/fashion_mnist:long`, and what it requires."""

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


class Required(str):
    """Text in the place of a value that must be given: its form, `RUN`."""


@checked()
def required(form: str) -> Required:
    """A value that whoever uses the config must give: without it nothing is trained.

        config.init_from = vitzoo.config.required("RUN")

    Args:
        form: what it looks like, as the refusal shows it: `--config.init_from=RUN`.
    """
    return Required(form)


def refuse_missing(file: Mapping[str, Any], flags: Mapping[str, Any]) -> None:
    """Refuses a config of whose required values the flags leave some out, all of them named.

    Args:
        file: what the config states, nested dicts.
        flags: what overrides it.
    """
    missing = _missing(file, flags, "")
    if missing:
        named = sorted(missing.items(), key=lambda item: "." in item[0])
        to_give = " ".join(f"--config.{name}={form}" for name, form in named)
        raise UserError(named[0][0], None, f"must be given: {to_give}")


def _missing(file: Mapping[str, Any], flags: Any, prefix: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in file.items():
        given = flags.get(key) if isinstance(flags, Mapping) else None
        if isinstance(value, Mapping):
            found |= _missing(value, given or {}, f"{prefix}{key}.")
        elif isinstance(value, Required) and given is None:
            found[f"{prefix}{key}"] = str(value)
    return found
