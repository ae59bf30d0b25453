"""Predictions and features as files."""

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import Failed, Refused

ENDINGS = {"output": (".csv", ".jsonl"), "features": (".npz",)}


def check_file(flag: str, path: str | Path | None) -> Path | None:
    """A file that is to be written, checked before any work.

    Raises:
        Refused: its ending names no known form, or its folder doesn't exist.
    """
    if path is None:
        return None
    path = Path(path).expanduser()
    if path.suffix.lower() not in ENDINGS[flag]:
        raise Refused(flag, path, f"must end in {' or '.join(ENDINGS[flag])}")
    if not path.parent.is_dir():
        raise Refused(flag, path, f"the folder {path.parent} doesn't exist")
    return path


def write_predictions(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows as CSV (file, label, probability, label_2, probability_2 ..., error) or as JSON lines of the same rows."""
    text = as_csv(rows) if path.suffix.lower() == ".csv" else "".join(json.dumps(row) + "\n" for row in rows)
    write(path, text.encode())


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
    write(path, packed.getvalue())


def write(path: Path, content: bytes) -> None:
    """A file, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        raise Failed(f"{path} can't be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
