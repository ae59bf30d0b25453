"""Predictions and features as files."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.outputs import write_whole


def write_predictions(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows as CSV (file, label, probability, label_2, probability_2 ..., error) or as JSON lines of the same rows."""
    text = as_csv(rows) if path.suffix.lower() == ".csv" else "".join(json.dumps(row) + "\n" for row in rows)
    write_whole(path, lambda partial: partial.write_bytes(text.encode()))


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as CSV, as many pairs of columns as the longest has classes."""
    most = max(len(row["top"]) for row in rows)
    names = [name for rank in range(most) for name in (f"label_{rank + 1}", f"probability_{rank + 1}")]
    names[:2] = ["label", "probability"]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", *names, "error"])
    for row in rows:
        cells = [value for one in row["top"] for value in (one["label"], one["probability"])]
        writer.writerow([row["file"], *cells, *[""] * (len(names) - len(cells)), row["error"] or ""])
    return text.getvalue()


def write_features(path: Path, files: Sequence[str], features: np.ndarray) -> None:
    """`files` (text `[n]`) and `features` (float32 `[n, width]`), readable by `numpy.load` without pickle."""
    packed = io.BytesIO()
    np.savez(packed, files=np.array(files, dtype=np.str_), features=features)
    write_whole(path, lambda partial: partial.write_bytes(packed.getvalue()))
