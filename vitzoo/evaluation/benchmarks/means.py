"""The means of benchmarks that are one table."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.evaluation.benchmarks.row import Benchmark
from vitzoo.evaluation.benchmarks.table import BENCHMARKS

LEFT_OUT = {"glue": ("glue/wnli",)}
"""Tasks that count nothing in a mean: BERT and T5 leave WNLI out of GLUE's."""
TOGETHER = {"glue/mnli-mm": "glue/mnli", "glue/mnli": "glue/mnli"}
"""Rows that are one task."""


def means(rows: Sequence[Benchmark], results: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
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
            found[group] = _of(group, counted, results)
    return found


def _of(group: str, rows: Sequence[Benchmark], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
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


def _score(row: Benchmark, result: Mapping[str, Any]) -> float | None:
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
