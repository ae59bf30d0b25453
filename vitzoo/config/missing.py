"""Settings that a config leaves to the command line."""

from collections.abc import Mapping
from typing import Any

from vitzoo.argument_types import checked
from vitzoo.errors import UserError


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
