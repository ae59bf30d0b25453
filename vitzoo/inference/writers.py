"""Predictions and features as files."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.outputs import write_whole


def write_predictions(path: Path, rows: Sequence[dict[str, Any]], several: Sequence[str] | None = None) -> None:
    """Rows as CSV or as JSON lines.

    Columns are named as in an evaluation's predictions, which have the true `label` besides: `file`, `prediction`,
    `probability`, `prediction_2`, `probability_2` ..., `error`. Where an image may have several labels, `prediction`
    joins those of a probability above 0.5 by `|`, and there is a column `probability:NAME` for every class.

    Args:
        path: a `.csv` or `.jsonl` file.
        rows: what `predict` gives.
        several: the names of all classes, where an image may have several.
    """
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix.lower() == ".csv":
        text = as_csv([ranked(row) if several is None else by_class(row, several) for row in rows])
    write_whole(path, lambda partial: partial.write_bytes(text.encode("utf-8", "surrogateescape")))  # names' own bytes


def ranked(row: dict[str, Any]) -> dict[str, Any]:
    """A row's classes by falling probability, as cells."""
    cells = {"file": row["file"], "prediction": None, "probability": None}
    for rank, one in enumerate(row["top"], 1):
        which = f"_{rank}" if rank > 1 else ""
        cells |= {f"prediction{which}": one["label"], f"probability{which}": one["probability"]}
    return cells | {"error": row["error"]}


def by_class(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A row of several labels as cells; probabilities that it doesn't list are empty."""
    listed = {one["index"]: one["probability"] for one in row["top"]}
    said = "|".join(name for index, name in enumerate(names) if listed.get(index, 0) > 0.5)
    columns = {f"probability:{name}": listed.get(index) for index, name in enumerate(names)}
    return {"file": row["file"], "prediction": said, **columns, "error": row["error"]}


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of cells as CSV, with the columns of the longest; None is an empty cell."""
    text = io.StringIO(newline="")
    longest = max(rows, key=len)
    writer = csv.DictWriter(text, list(longest), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_features(path: Path, files: Sequence[str], features: np.ndarray) -> None:
    """`files` (text `[n]`) and `features` (float32 `[n, width]`), readable by `numpy.load` without pickle."""
    packed = io.BytesIO()
    np.savez(packed, files=np.array(files, dtype=np.str_), features=features)
    write_whole(path, lambda partial: partial.write_bytes(packed.getvalue()))
