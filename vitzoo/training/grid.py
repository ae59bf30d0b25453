"""The runs of a sweep: every combination of the values that settings are to take, each in a folder of its own."""

import collections
import dataclasses
import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vitzoo.config import Resolved, resolve
from vitzoo.config.files import find_config
from vitzoo.config.layers import Overrides
from vitzoo.errors import UserError
from vitzoo.paths import LONGEST

ARGUMENT = "arg"
"""In place of a setting: the argument of the config, what stands behind `:` in its name."""
MOST = 1_000  # runs of a sweep, of which each is resolved and checked before the first begins
NAMED = 5  # repeated values that a message lists


@dataclasses.dataclass(frozen=True)
class Point:
    """One run of a sweep.

    Attributes:
        name: of its folder, `learning_rate=0.03,seed=1`.
        values: by setting, as they were typed.
        resolved: its whole config.
    """

    name: str
    values: Mapping[str, str]
    resolved: Resolved

    @property
    def typed(self) -> str:
        """Its values as they were typed, for messages."""
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


def parse_axis(text: str) -> tuple[str, list[str]]:
    """`optimizer.learning_rate=0.03,0.01` as the setting and its values; `;` parts values that hold commas.

    Raises:
        UserError: it is written otherwise, or a value comes twice.
    """
    key, equals, values = text.removeprefix("--").removeprefix("config.").partition("=")
    parts = [value.strip() for value in values.split(";" if ";" in values else ",")]
    if not equals or not key or not all(parts):
        raise UserError("--over", text, "is written KEY=VALUE,VALUE: optimizer.learning_rate=0.03,0.01,0.003")
    repeated = [value for value, times in collections.Counter(parts).items() if times > 1]
    if repeated:
        listed = ", ".join(repeated[:NAMED]) + (", ..." if len(repeated) > NAMED else "")
        raise UserError("--over", text[:LONGEST], f"names {listed} twice")
    return key, parts


def points(config: str | Path, axes: Mapping[str, Sequence[str]], overrides: Overrides = ()) -> list[Point]:
    """Every combination, the last setting running fastest; each config is resolved, so that none fails for a typo
    after hours.

    Args:
        config: a file or a name.
        axes: settings and their values; `arg` is the config's argument.
        overrides: what all runs share.

    Raises:
        UserError: more than `MOST` runs, a setting or value that there isn't, one that is given both ways, values whose
            folders would have one name or none, or two ways to write one training.
    """
    shared = [f"{key}={value}" for key, value in overrides.items()] if isinstance(overrides, Mapping) else [*overrides]
    fixed = {text.partition("=")[0] for text in shared}
    if both := sorted(fixed & set(axes)):
        raise UserError(f"--config.{both[0]}", None, "is given for all runs and with --over too")
    if ARGUMENT in axes and isinstance(config, str | Path) and find_config(config)[1] is not None:
        raise UserError("--config", config, "names an argument, and --over arg= does too; leave one out")
    count = math.prod(map(len, axes.values()))
    if count > MOST:
        counts = " × ".join(f"{len(values):,}" for values in axes.values())
        raise UserError("--over", counts, f"makes {count:,} runs; a sweep has {MOST:,} at most")
    names = _short(list(axes))
    made = [_point(config, dict(zip(axes, values, strict=True)), names, shared) for values in _product(axes)]
    _check_apart(made)
    return made


def _check_apart(made: Sequence[Point]) -> None:
    """Refuses runs that would have one folder, or be one training under two names, and names that are too long."""
    names: dict[str, Point] = {}
    trainings: dict[str, Point] = {}
    for point in made:
        if len(os.fsencode(point.name)) > LONGEST:
            raise UserError("--over", point.typed, f"has values too long for a folder's name, {LONGEST} bytes at most")
        if (first := names.setdefault(point.name, point)) is not point:
            raise UserError("--over", point.typed, f"has the same folder as {first.typed}: {first.name}")
        training = json.dumps(point.resolved.values, sort_keys=True, default=str)
        if (first := trainings.setdefault(training, point)) is not point:
            raise UserError("--over", point.typed, f"is the same training as {first.typed}; leave one out")


def _product(axes: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    return itertools.product(*axes.values())


def _point(config: str | Path, values: Mapping[str, str], names: Mapping[str, str], shared: list[str]) -> Point:
    changes = [f"{key}={value}" for key, value in values.items() if key != ARGUMENT]
    folder = ",".join(f"{names[key]}={_plain(value)}" for key, value in values.items())
    return Point(folder, values, resolve(config, values.get(ARGUMENT), [*shared, *changes]))


def _short(keys: list[str]) -> dict[str, str]:
    """The last part of each setting's name, as much of it as tells them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True)}


def _plain(value: str) -> str:
    """A value as part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "_", value).strip("_") or "_"
