"""Benchmarks as tables: what a checkpoint scored, what is published, and what there is."""

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.table import Table

from vitzoo import streams
from vitzoo.evaluation.benchmarks import published
from vitzoo.evaluation.benchmarks.row import Benchmark

WIDTH = 160


def say_table(rows: Sequence[Benchmark], found: Mapping[str, Any], out: TextIO) -> None:
    """Print a row for each benchmark, the means of groups, why some were skipped, and the published table."""
    results = found["results"]
    title = f"{found['checkpoint']}: step {found['step']}, weights {found['weights']}"
    table = Table("benchmark", "dataset", "n", "metric", "score", "expected", "of", title=title, title_justify="left")
    for row in rows:
        result = results[row.name]
        score = None if result["skipped"] else result["metrics"].get(row.metric)
        known = row.expected
        table.add_row(
            row.name,
            f"{row.prepared or result['dataset'] or ''} {result['split']}".strip(),
            f"{result['n']:,}" if result["n"] else "–",
            f"{row.metric}{' %' if row.unit == '%' else ''}",
            "skipped" if result["skipped"] else row.shown(score),
            "–" if known is None else f"{known.score:.2f}",
            "" if known is None else known.checkpoint,
        )
    for name, result in results.items():
        if name not in {row.name for row in rows}:
            for metric, value in result["metrics"].items():
                shown = "–" if value is None else f"{value * 100:.2f}"
                table.add_row(name, "", "", f"{metric} %", shown, "", "")
    _print(table, out)
    for name, result in results.items():
        if result["skipped"] and name not in {row.name for row in rows}:
            print(f"{name}: skipped: {result['skipped']}", file=out)
    _say_published(found, out)


def _say_published(found: Mapping[str, Any], out: TextIO) -> None:
    """The checkpoint's row above those of the ViT paper, for the benchmarks that this has."""
    results = found["results"]
    names = [name for name in published.NAMES if name in results]
    if not names:
        return
    title = f"published: {published.SOURCE}"
    table = Table("fine-tuned, %", *names, "TPUv3-core-days", title=title, title_justify="left")
    table.add_row(str(found["checkpoint"]), *(_own(name, results[name]) for name in names), "")
    for model in published.MODELS:
        table.add_row(model.name, *(model.scores[name] for name in names), model.core_days)
    _print(table, out)


def _own(name: str, result: Mapping[str, Any]) -> str:
    value = result["metrics"].get("mean" if name == "vtab" else "accuracy")
    return "–" if result["skipped"] or value is None else f"{value * 100:.2f}"


def _print(table: Table, out: TextIO) -> None:
    streams.console(out, WIDTH).print(table)
