"""All benchmarks by name, the means of those that are one table, and how they are shown."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.table import Table

from vitzoo import streams
from vitzoo.errors import UserError
from vitzoo.evaluation.benchmarks.benchmark import Benchmark
from vitzoo.evaluation.benchmarks.suite import IMAGES, TEXTS, measured_by
from vitzoo.evaluation.results import Result, Results
from vitzoo.spelling import nearest

BENCHMARKS: dict[str, Benchmark] = {row.name: row for row in (*IMAGES, *TEXTS)}
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(row.group[0] for row in BENCHMARKS.values() if row.group[0]))


def asked_for(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks that names stand for, each once: a benchmark, a group of them, or NAME:EVALUATOR.

    Raises:
        UserError: there is no such; the nearest is named.
    """
    found: dict[str, Benchmark] = {}
    for name in names:
        base, colon, evaluator = name.partition(":")
        rows = [row for row in BENCHMARKS.values() if base and base in (row.name, row.group[0])]
        if not rows:
            raise UserError("--benchmark", name or "''", f"no such benchmark; {nearest(base, [*BENCHMARKS, *GROUPS])}")
        found |= {row.name: row for row in ([measured_by(row, evaluator) for row in rows] if colon else rows)}
    return list(found.values())


LEFT_OUT = {"glue": ("glue/wnli",)}
"""Tasks that count nothing in a mean: BERT and T5 leave WNLI out of GLUE's."""
TOGETHER = {"glue/mnli-mm": "glue/mnli", "glue/mnli": "glue/mnli"}
"""Rows that are one task."""


def means(rows: Sequence[Benchmark], results: Mapping[str, Result]) -> dict[str, Result]:
    """For each group of which all rows were asked for, its means as a further result.

    `vtab` has the mean of each of its parts, and `mean`, over all 19 tasks. Where a task has no score, what it belongs
    to has none, and `skipped` says which is missing.
    """
    asked = {row.name for row in rows}
    found = {}
    for group in dict.fromkeys(row.group[0] for row in rows if row.group[0]):
        members = [row for row in BENCHMARKS.values() if row.group[0] == group]
        counted = [row for row in members if row.name not in LEFT_OUT.get(group, ())]
        if len(counted) > 1 and {row.name for row in members} <= asked:
            found[group] = _mean_of_group(group, counted, results)
    return found


def _mean_of_group(group: str, rows: Sequence[Benchmark], results: Mapping[str, Result]) -> Result:
    scores = {row.name: _score(row, results[row.name]) for row in rows}
    parts = dict.fromkeys(row.group[1] for row in rows if row.group[1])
    wanted = {part: [row.name for row in rows if row.group[1] == part] for part in parts} | {"mean": list(scores)}
    metrics = {part: _mean({name: scores[name] for name in names}) for part, names in wanted.items()}
    missing = [name for name, score in scores.items() if score is None]
    return {
        "dataset": group,
        "split": rows[0].split,
        "n": sum(results[row.name]["n"] for row in rows),
        "metrics": metrics,
        "skipped": f"no score of {', '.join(missing)}" if missing else None,
    }


def _score(row: Benchmark, result: Result) -> float | None:
    return None if result["skipped"] else result["metrics"].get(row.metric)


def _mean(scores: Mapping[str, float | None]) -> float | None:
    """The mean over tasks, each once; None where one is missing."""
    tasks: dict[str, list[float]] = {}
    for name, score in scores.items():
        if score is None:
            return None
        tasks.setdefault(TOGETHER.get(name, name), []).append(score)
    each = [sum(one) / len(one) for one in tasks.values()]
    return sum(each) / len(each)


VIT_PAPER = "https://arxiv.org/abs/2010.11929, table 2"


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A published model: its scores by benchmark, and TPUv3-core-days of pretraining."""

    name: str
    scores: Mapping[str, str]
    core_days: str


PUBLISHED_NAMES = ("imagenet", "imagenet-real", "cifar10", "cifar100", "pets", "flowers", "vtab")


def _published(name: str, core_days: str, *scores: str) -> PublishedModel:
    return PublishedModel(name, dict(zip(PUBLISHED_NAMES, scores, strict=True)), core_days)


PUBLISHED = (
    _published("ViT-H/14 JFT", "2.5k", "88.55", "90.72", "99.50", "94.55", "97.56", "99.68", "77.63"),
    _published("ViT-L/16 JFT", "0.68k", "87.76", "90.54", "99.42", "93.90", "97.32", "99.74", "76.28"),
    _published("ViT-L/16 I21k", "0.23k", "85.30", "88.62", "99.15", "93.25", "94.67", "99.61", "72.72"),
    _published("BiT-L", "9.9k", "87.54", "90.54", "99.37", "93.51", "96.62", "99.63", "76.29"),
    _published("Noisy Student", "12.3k", "88.4–88.5", "90.55", "–", "–", "–", "–", "–"),
)
"""What the ViT paper publishes of itself and of its rivals (Dosovitskiy et al. 2021), in %; each fine-tuned to the
benchmark."""

WIDTH = 160


def say_table(rows: Sequence[Benchmark], found: Results, out: TextIO) -> None:
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


def _say_published(found: Results, out: TextIO) -> None:
    """The checkpoint's row above those of the ViT paper, for the benchmarks that this has."""
    results = found["results"]
    names = [name for name in PUBLISHED_NAMES if name in results]
    if not names:
        return
    title = f"published: {VIT_PAPER}"
    table = Table("fine-tuned, %", *names, "TPUv3-core-days", title=title, title_justify="left")
    table.add_row(str(found["checkpoint"]), *(_own_score(name, results[name]) for name in names), "")
    for model in PUBLISHED:
        table.add_row(model.name, *(model.scores[name] for name in names), model.core_days)
    _print(table, out)


def _own_score(name: str, result: Result) -> str:
    value = result["metrics"].get("mean" if name == "vtab" else "accuracy")
    return "–" if result["skipped"] or value is None else f"{value * 100:.2f}"


def _print(table: Table, out: TextIO) -> None:
    streams.console(out, WIDTH).print(table)
