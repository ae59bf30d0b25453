"""What is read of a run to compare it with others: its config, its curves, its evaluations."""

import csv
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitzoo.checkpoints.locate import WEIGHTS
from vitzoo.config.kept import read_object
from vitzoo.errors import UserError

Curves = Mapping[str, Mapping[str, tuple[list, list]]]
"""By metric and split, steps and values."""

Last = Mapping[str, tuple[int, float | None]]

PICTURES = ("confusion.png", "mistakes.png")
SAMPLES = "mistakes.csv"
SHOWN = 10  # rows of sample predictions
LONGEST = 2**27  # characters of a cell, which may hold a whole document


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """An evaluation that lies in a run's folder.

    Attributes:
        name: of its folder, from `eval/`: `STEP-WEIGHTS/NAME`.
        result: its `metrics.json`.
        pictures: files of pictures.
        samples: some predictions, as rows of a table.
    """

    name: str
    result: Mapping[str, Any]
    pictures: tuple[Path, ...]
    samples: tuple[Mapping[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        name: what it is called on the page.
        config: its settings by dotted name.
        curves: its metrics.
        last: step and value of each metric's last entry, by SPLIT/METRIC; None where that was not finite.
        weights: which its evaluations were of, `ema` or `raw`; None where it has none.
        evaluated: what `vitzoo eval` left in its folder.
    """

    name: str
    config: Mapping[str, Any]
    curves: Curves
    last: Last
    weights: str | None
    evaluated: tuple[Evaluated, ...]


def read_run(folder: Path, name: str, curves: Curves, last: Last, weights: str | None) -> Run:
    """A run of a folder.

    Raises:
        UserError: it is no run, or a file in it can't be read.
    """
    file = folder / "config.json"
    if not file.is_file():
        raise UserError("DIR", str(folder), "is no run: it has no config.json")
    if any((folder / name).is_file() for name in WEIGHTS):
        raise UserError("DIR", str(folder), "is no run: it holds published weights, which have no training to show")
    return Run(name, flat(read_object(file, "DIR")), curves, last, weights, tuple(_evaluated(folder / "eval")))


def names_of(folders: Sequence[Path]) -> list[str]:
    """A name for each folder: its last part, or the whole path where that isn't one folder's alone."""
    last = [folder.resolve().name for folder in folders]
    names = [name if last.count(name) == 1 else str(folder) for folder, name in zip(folders, last, strict=True)]
    return [os.fsencode(name).decode("utf-8", "backslashreplace") for name in names]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return found


def differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """The settings in which runs differ, with the value of each; None where a run has no such setting."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    values = {name: [run.config.get(name) for run in runs] for name in names}
    return {name: own for name, own in values.items() if any(value != own[0] for value in own)}


def _evaluated(folder: Path) -> list[Evaluated]:
    found = []
    for file in sorted(folder.rglob("metrics.json")):
        result = read_object(file, "DIR")
        if not isinstance(result.get("metrics", {}), Mapping):
            raise UserError("DIR", str(file), "is no evaluation's: its `metrics` are no object")
        pictures = tuple(file.with_name(name) for name in PICTURES if file.with_name(name).is_file())
        samples = _samples(file.with_name(SAMPLES))
        found.append(Evaluated(str(file.parent.relative_to(folder)), result, pictures, samples))
    return found


def _samples(file: Path) -> tuple[Mapping[str, str], ...]:
    if not file.is_file():
        return ()
    csv.field_size_limit(LONGEST)
    try:
        with file.open(newline="", encoding="utf-8") as opened:
            return tuple(row for row, _ in zip(csv.DictReader(opened), range(SHOWN), strict=False))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError("DIR", str(file), f"can't be read: {error}") from error
