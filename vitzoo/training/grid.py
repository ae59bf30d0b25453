"""The runs of a sweep: every combination of the values that settings are to take, each in a folder of its own."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitzoo.config import Resolved, resolve
from vitzoo.config.resolution import Overrides
from vitzoo.errors import Refused

ARGUMENT = "arg"
"""In place of a setting: the argument of the config, what stands behind `:` in its name."""


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


def parse_axis(text: str) -> tuple[str, list[str]]:
    """`optimizer.learning_rate=0.03,0.01` as the setting and its values; `;` parts values that hold commas.

    Raises:
        Refused: it is written otherwise, or a value comes twice.
    """
    key, equals, values = text.removeprefix("--").removeprefix("config.").partition("=")
    parts = [value.strip() for value in values.split(";" if ";" in values else ",")]
    if not equals or not key or not all(parts):
        raise Refused("--over", text, "is written KEY=VALUE,VALUE: optimizer.learning_rate=0.03,0.01,0.003")
    repeated = sorted({value for value in parts if parts.count(value) > 1})
    if repeated:
        raise Refused("--over", text, f"names {', '.join(repeated)} twice")
    return key, parts


def points(config: str | Path, axes: Mapping[str, Sequence[str]], overrides: Overrides = ()) -> list[Point]:
    """Every combination, the last setting running fastest; each config is resolved, so that none fails for a typo
    after hours.

    Args:
        config: a file or a name.
        axes: settings and their values; `arg` is the config's argument.
        overrides: what all runs share.

    Raises:
        Refused: a setting or value that there isn't, one that is given both ways, or values whose folders would have
            one name.
    """
    shared = [f"{key}={value}" for key, value in overrides.items()] if isinstance(overrides, Mapping) else [*overrides]
    fixed = {text.partition("=")[0] for text in shared}
    if both := sorted(fixed & set(axes)):
        raise Refused(f"--config.{both[0]}", None, "is given for all runs and with --over too")
    names = _short(list(axes))
    made = [_point(config, dict(zip(axes, values, strict=True)), names, shared) for values in _product(axes)]
    for first, second in itertools.combinations(made, 2):
        if first.name == second.name:
            raise Refused("--over", dict(second.values), f"has the same folder as {dict(first.values)}: {first.name}")
    return made


def _product(axes: Mapping[str, Sequence[str]]) -> Any:
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
