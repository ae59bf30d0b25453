"""The commands: each parses its flags, calls one function of vitzoo and prints."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "main":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vitzoo.cli.entry import main

    return main
