"""That all processes of a run were given the same settings: else they would compute different things, in silence, or
wait for each other for ever.
"""

from collections.abc import Mapping
from typing import Any

from vitzoo.config.comparison import compare
from vitzoo.errors import UserError
from vitzoo.parallel import processes


def check_same(values: Mapping[str, Any], flags: Mapping[str, Any] | None = None) -> None:
    """Compares the settings of all processes; only where data lie may differ, and how they are read.

    Args:
        values: of the resolved config.
        flags: further ones of the command, by name.

    Raises:
        UserError: a process was given another value, in every process.
    """
    if processes.count() == 1:
        return
    everyone = processes.gather([values, flags or {}])
    for index, (theirs, flags_there) in enumerate(everyone):
        different = differences(everyone[0][0], theirs) | {
            name: (value, flags_there.get(name))
            for name, value in everyone[0][1].items()
            if value != flags_there.get(name)
        }
        for name, (first, other) in different.items():
            raise UserError(name, first, f"process {index} has {other}; give all processes the same settings")


def differences(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings in which two processes' configs may not differ and do, by name: (first, other)."""
    meaning, execution = compare(first, other)
    return meaning | {name: pair for name, pair in execution.items() if "data" not in name.split(".")}
