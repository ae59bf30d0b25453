"""A pass of the classification evaluator as tables: per class on the terminal, per example in a file."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from vitzoo.evaluation.label_metrics import agreement, average_precisions
from vitzoo.evaluation.settings import Rows
from vitzoo.strict_json import JSON

SHOWN = 20  # rows of the printed per-class table; the file has all


def names_of(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Class names, numbers where there are none."""
    return tuple(names) if names is not None else tuple(str(index) for index in range(count))


def confusion(rows: Rows, count: int) -> np.ndarray:
    """How often an example of class row was called class column, int64 `[count, count]`."""
    pairs = rows["label"].astype(np.int64) * count + rows["prediction"]
    return np.bincount(pairs, minlength=count * count).reshape(count, count)


def per_class(rows: Rows, names: Sequence[str]) -> list[dict]:
    """One row per class: examples, recall (its accuracy), precision, F1; for several labels average precision too.

    A ratio over nothing (no example, no prediction) is NaN.
    """
    several = rows["label"].ndim == 2
    if several:
        hits, said, had = agreement(rows["label"] > 0.5, rows["probability"] > 0.5)
    else:
        hits = np.bincount(rows["label"][rows["rank"] == 0], minlength=len(names))
        said, had = (np.bincount(rows[key], minlength=len(names)) for key in ("prediction", "label"))
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {
            "class": names,
            "n": had,
            "recall": hits / had,
            "precision": hits / said,
            "f1": 2 * hits / (said + had),
        }
    if several:
        columns["average_precision"] = average_precisions(rows)
    return by_row(columns)


def by_row(columns: Mapping[str, np.ndarray | Sequence[JSON]]) -> list[dict]:
    """Columns of equal length as rows of plain Python values."""
    values = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def print_per_class(table: list[dict], console: Console) -> None:
    """Print the per-class table; of many classes the worst that have examples, and say so."""
    shown, title = table, None
    if len(table) > SHOWN:
        score = "average_precision" if "average_precision" in table[0] else "recall"
        present = sorted((row for row in table if row["n"]), key=lambda row: row[score])
        shown = present[:SHOWN]
        worst = f"the {SHOWN} worst of " if len(present) > SHOWN else "the "
        title = f"{worst}{len(present)} classes" + (" with examples" if len(present) < len(table) else "")
    view = Table(title=title)
    for key in table[0]:
        view.add_column(key.replace("_", " "), justify="left" if key == "class" else "right")
    for row in shown:
        view.add_row(*(cell(value) for value in row.values()))
    console.print(view)


def cell(value: object) -> str:
    """A value as the table shows it."""
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4f}"
    return str(value).replace("\n", "\\n")


def write_csv(path: Path, table: Sequence[Mapping[str, JSON]]) -> None:
    """Write rows of one shape as CSV; NaN is an empty cell."""
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:  # a file name's own bytes
        writer = csv.DictWriter(file, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        for row in table:
            writer.writerow({k: "" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()})


def write_rows(path: Path, table: Sequence[Mapping[str, JSON]]) -> None:
    """Write rows of one shape as JSON lines, or as CSV, by the file's ending."""
    if path.suffix.lower() == ".csv":
        write_csv(path, table)
        return
    plain = [{key: None if isinstance(v, float) and math.isnan(v) else v for key, v in row.items()} for row in table]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plain)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")  # which JSON reads


def predictions(rows: Rows, names: Sequence[str], files: Sequence[str] | None = None) -> list[dict]:
    """One row per example, in the dataset's order: `file` (or `id`), `label`, `prediction`, `probability`.

    With several labels each, `label` and `prediction` (probability above 0.5) are names joined by `|`, and there is a
    column `probability:NAME` for every class.
    """
    who: dict[str, Any] = {"id": rows["id"] if "id" in rows else rows["position"]}
    if files is not None:
        who = {"file": [str(files[position]) for position in rows["position"]]}
    if rows["label"].ndim == 2:
        columns: dict[str, Any] = who | {
            "label": joined(rows["label"], names),
            "prediction": joined(rows["probability"], names),
        }
        columns |= {f"probability:{name}": rows["probability"][:, index] for index, name in enumerate(names)}
    else:
        label, prediction = ([names[index] for index in rows[key]] for key in ("label", "prediction"))
        columns = who | {"label": label, "prediction": prediction, "probability": rows["probability"]}
    return by_row(columns)


def joined(values: np.ndarray, names: Sequence[str]) -> list[str]:
    """The names whose value is above 0.5, joined by `|`, for each row of `[n, classes]`."""
    return ["|".join(names[int(index)] for index in np.flatnonzero(row > 0.5)) for row in values]
