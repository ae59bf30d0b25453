"""The surfaces by name, and a case of one: its inputs made in the current folder, and its command."""

import random
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from fuzzing import made
from fuzzing.checkpoints import runs, weights
from fuzzing.data import csv_tables, images, json_lines
from fuzzing.runner import Case
from fuzzing.settings import config, flags

Surface = Callable[[random.Random, Path], Sequence[str]]
"""Makes a case's inputs in the current folder from the session's valid ones, and gives the command's arguments."""
SURFACES: Mapping[str, Surface] = {
    "flags": flags,
    "config": config,
    "json": json_lines,
    "csv": csv_tables,
    "images": images,
    "weights": weights,
    "runs": runs,
}
BEGAN = re.compile(r"can't be read|compiling the first|^step \d|no evaluator could|left out|  error: ", re.MULTILINE)
"""What commands print once work has begun, or of data that were read to their end: exit code 1 is then right."""


def case(name: str, seed: int, base: Path) -> Case:
    """The case `SURFACE:NUMBER` of a seed; `base` is the session's folder."""
    return Case(name, partial(_make, name, seed, base), lambda said: BEGAN.search(said) is not None)


def _make(name: str, seed: int, base: Path) -> Callable[[], int]:
    surface = SURFACES[name.partition(":")[0]]
    arguments = [_passable(argument) for argument in surface(random.Random(f"{seed} {name}"), base)]
    print(f"$ vitzoo {shlex.join(arguments)}".encode("utf-8", "backslashreplace").decode(), flush=True)
    return partial(made.command, arguments)


def _passable(argument: str) -> str:
    """What a shell can pass on: no NUL, and no surrogates."""
    return argument.replace("\0", "_").encode("utf-8", "replace").decode()
