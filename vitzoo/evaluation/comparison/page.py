"""Runs compared, as one HTML page that references nothing outside of itself."""

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitzoo.evaluation.comparison.runs import Evaluated, Run, differences
from vitzoo.evaluation.comparison.svg import COLORS, chart

STYLE = """
body { font: 15px/1.4 sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: 3px 8px; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { display: inline-block; margin: 0 1em 1em 0; vertical-align: top; }
figure img { max-width: 100%; }
svg text { font: 11px sans-serif; fill: #444; }
"""


def page(runs: Sequence[Run]) -> str:
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


def metrics_table(runs: Sequence[Run]) -> tuple[list[str], list[list[Any]]]:
    """Header and rows: of each run its last step, which weights its evaluations are of (where there is any) and the
    last value of each metric; None where it has none.
    """
    names = list(dict.fromkeys(name for run in runs for name in run.last))
    told = any(run.weights for run in runs)
    rows: list[list[Any]] = []
    for run in runs:
        steps = [step for step, _ in run.last.values()]
        values = [run.last.get(name, (None, None))[1] for name in names]
        rows.append([run.name, max(steps, default=None), *([run.weights] if told else []), *values])
    return ["run", "step", *(["weights"] if told else []), *names], rows


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; numbers are flush right, and what there is none of is a dash."""
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in header)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    how = ' class="number"' if number else ""
    return f"<td{how}>{html.escape(shown)}</td>"


def _settings(runs: Sequence[Run]) -> str:
    differing = differences(runs)
    if not differing:
        return "<p>None.</p>"
    return table(["setting", *(run.name for run in runs)], [[name, *values] for name, values in differing.items()])


def _evaluations(runs: Sequence[Run]) -> str:
    every = [(run, one) for run in runs for one in run.evaluated]
    if not every:
        return "<p>None: vitzoo eval --checkpoint RUN makes some.</p>"
    names = list(dict.fromkeys(name for _, one in every for name in one.result.get("metrics", {})))
    rows = [
        [run.name, one.name, *(one.result.get(key) for key in ("dataset", "split", "n")), *_metrics(one, names)]
        for run, one in every
    ]
    return table(["run", "evaluation", "dataset", "split", "n", *names], rows)


def _metrics(one: Evaluated, names: Sequence[str]) -> list[Any]:
    return [one.result.get("metrics", {}).get(name) for name in names]


def _curves(runs: Sequence[Run]) -> str:
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


def _predictions(runs: Sequence[Run]) -> str:
    parts = []
    for run in runs:
        for one in run.evaluated:
            shown = [_picture(file) for file in one.pictures]
            shown += [_samples(one.samples)] if one.samples else []
            if shown:
                parts.append(f"<h3>{html.escape(f'{run.name}: {one.name}')}</h3>\n" + "\n".join(shown))
    return "\n".join(parts) or "<p>None: vitzoo eval --checkpoint RUN makes pictures of images and tables of texts.</p>"


def _picture(file: Path) -> str:
    content = base64.b64encode(file.read_bytes()).decode("ascii")
    image = f'<img alt="{file.stem}" src="data:image/png;base64,{content}">'
    return f"<figure><figcaption>{file.stem}</figcaption>{image}</figure>"


def _samples(rows: Sequence[Mapping[str, str]]) -> str:
    return table(list(rows[0]), [list(row.values()) for row in rows])
