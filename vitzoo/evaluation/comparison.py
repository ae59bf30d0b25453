"""Runs compared, as one HTML page that references nothing outside of itself: config, curves and evaluations of each."""

import base64
import csv
import dataclasses
import html
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vitzoo.checkpoints.locate import WEIGHTS
from vitzoo.config.files import read_object
from vitzoo.errors import UserError
from vitzoo.evaluation.pictures import COLORS, chart
from vitzoo.strict_json import JSON

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
    result: Mapping[str, JSON]
    pictures: tuple[Path, ...]
    samples: tuple[Mapping[str, str], ...]

    @property
    def metrics(self) -> Mapping[str, JSON]:
        """Of the result, by name; none where it has none."""
        found = self.result.get("metrics", {})
        assert isinstance(found, Mapping)  # which was looked at when it was read
        return found


@dataclasses.dataclass(frozen=True)
class ComparedRun:
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
    config: Mapping[str, JSON]
    curves: Curves
    last: Last
    weights: str | None
    evaluated: tuple[Evaluated, ...]


def read_run(folder: Path, name: str, curves: Curves, last: Last, weights: str | None) -> ComparedRun:
    """A run of a folder.

    Raises:
        UserError: it is no run, or a file in it can't be read.
    """
    file = folder / "config.json"
    if not file.is_file():
        raise UserError("DIR", str(folder), "is no run: it has no config.json")
    if any((folder / name).is_file() for name in WEIGHTS):
        raise UserError("DIR", str(folder), "is no run: it holds published weights, which have no training to show")
    return ComparedRun(name, flat(read_object(file, "DIR")), curves, last, weights, tuple(_evaluated(folder / "eval")))


def names_of(folders: Sequence[Path]) -> list[str]:
    """A name for each folder: its last part, or the whole path where that isn't one folder's alone."""
    last = [folder.resolve().name for folder in folders]
    names = [name if last.count(name) == 1 else str(folder) for folder, name in zip(folders, last, strict=True)]
    return [os.fsencode(name).decode("utf-8", "backslashreplace") for name in names]


def flat(values: Mapping[str, JSON], prefix: str = "") -> dict[str, JSON]:
    """Nested settings by dotted name."""
    found: dict[str, JSON] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return found


def differences(runs: Sequence[ComparedRun]) -> dict[str, list[JSON]]:
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


STYLE = """
body { font: 15px/1.4 sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: 3px 8px; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { display: inline-block; margin: 0 1em 1em 0; vertical-align: top; }
figure img { max-width: 100%; }
svg text { font: 11px sans-serif; fill: #444; }
"""


def page(runs: Sequence[ComparedRun]) -> str:
    """The page: metrics, settings that differ, evaluations, curves, pictures and sample predictions."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>vitzoo report</title>',
        f"<style>{STYLE}</style></head><body>",
        "<h1>vitzoo report</h1>",
        "<h2>Last value of each metric</h2>",
        table(*metrics_table(runs)),
        "<h2>Settings that differ</h2>",
        _settings(runs),
        "<h2>Evaluations</h2>",
        _evaluations(runs),
        "<h2>Curves</h2>",
        _curves(runs),
        "<h2>Predictions</h2>",
        _predictions(runs),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def metrics_table(runs: Sequence[ComparedRun]) -> tuple[list[str], list[list[JSON]]]:
    """Header and rows: of each run its last step, which weights its evaluations are of (where there is any) and the
    last value of each metric; None where it has none.
    """
    names = list(dict.fromkeys(name for run in runs for name in run.last))
    told = any(run.weights for run in runs)
    rows: list[list[JSON]] = []
    for run in runs:
        steps = [step for step, _ in run.last.values()]
        values = [run.last.get(name, (None, None))[1] for name in names]
        rows.append([run.name, max(steps, default=None), *([run.weights] if told else []), *values])
    return ["run", "step", *(["weights"] if told else []), *names], rows


def table(header: Sequence[str], rows: Iterable[Sequence[JSON]]) -> str:
    """A table; numbers are flush right, and what there is none of is a dash."""
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in header)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"


def _cell(value: JSON) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    how = ' class="number"' if number else ""
    return f"<td{how}>{html.escape(shown)}</td>"


def _settings(runs: Sequence[ComparedRun]) -> str:
    differing = differences(runs)
    if not differing:
        return "<p>None.</p>"
    return table(["setting", *(run.name for run in runs)], [[name, *values] for name, values in differing.items()])


def _evaluations(runs: Sequence[ComparedRun]) -> str:
    every = [(run, one) for run in runs for one in run.evaluated]
    if not every:
        return "<p>None: vitzoo eval --checkpoint RUN makes some.</p>"
    names = list(dict.fromkeys(name for _, one in every for name in one.metrics))
    rows = [
        [run.name, one.name, *(one.result.get(key) for key in ("dataset", "split", "n")), *_metrics(one, names)]
        for run, one in every
    ]
    return table(["run", "evaluation", "dataset", "split", "n", *names], rows)


def _metrics(one: Evaluated, names: Sequence[str]) -> list[JSON]:
    return [one.metrics.get(name) for name in names]


def _curves(runs: Sequence[ComparedRun]) -> str:
    metrics = dict.fromkeys(metric for run in runs for metric in run.curves)
    legend = "".join(
        f'<li><span style="color:{COLORS[number % len(COLORS)]}">■</span> {html.escape(run.name)}</li>'
        for number, run in enumerate(runs)
    )
    splits = list(dict.fromkeys(split for run in runs for lines in run.curves.values() for split in lines))
    told = f"<p>Solid, then dashed: {html.escape(', '.join(splits))}.</p>" if len(splits) > 1 else ""
    figures = []
    for metric in metrics:
        lines = [
            (f"{run.name} {split}", number, splits.index(split), steps, values)
            for number, run in enumerate(runs)
            for split, (steps, values) in run.curves.get(metric, {}).items()
        ]
        figures.append(f"<figure><figcaption>{html.escape(metric)}</figcaption>{chart(lines)}</figure>")
    return f"<ul>{legend}</ul>{told}\n" + "\n".join(figures) if figures else "<p>None.</p>"


def _predictions(runs: Sequence[ComparedRun]) -> str:
    parts = []
    for run in runs:
        for one in run.evaluated:
            shown = [_picture(file) for file in one.pictures]
            shown += [_samples_table(one.samples)] if one.samples else []
            if shown:
                parts.append(f"<h3>{html.escape(f'{run.name}: {one.name}')}</h3>\n" + "\n".join(shown))
    return "\n".join(parts) or "<p>None: vitzoo eval --checkpoint RUN makes pictures of images and tables of texts.</p>"


def _picture(file: Path) -> str:
    content = base64.b64encode(file.read_bytes()).decode("ascii")
    image = f'<img alt="{file.stem}" src="data:image/png;base64,{content}">'
    return f"<figure><figcaption>{file.stem}</figcaption>{image}</figure>"


def _samples_table(rows: Sequence[Mapping[str, str]]) -> str:
    return table(list(rows[0]), [list(row.values()) for row in rows])
