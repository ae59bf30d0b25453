"""Predictions, embeddings and features as lines, as tables, as files."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.outputs import write_whole

FIELDS = ("text", "first", "second")


def shown(row: dict[str, Any]) -> str:
    """The answer of a row in one line."""
    if row["error"] is not None:
        return f"error: {row['error']}"
    if "top" in row:
        return "  ".join(f"{one['label']} {one['probability']:.1%}" for one in row["top"])
    if "value" in row:
        return f"{row['value']:.6g}"
    if "labels" in row:
        return "→ " + " ".join(
            f"{word}/{label or '?'}" for word, label in zip(row["words"], row["labels"], strict=True)
        )
    if "next" in row:
        return _shown_tokens(row["next"])
    if "embedding" in row:
        first = " ".join(f"{value:.4f}" for value in row["embedding"][:4])
        return f"{len(row['embedding'])} numbers: {first} ..."
    if row["filled"] is None:
        return "no mask to fill in"
    return f"→ {row['filled']}" + "".join(f"\n    {_shown_tokens(mask)}" for mask in row["masks"])


def _shown_tokens(tokens: list[dict[str, Any]]) -> str:
    return "  ".join(f"{one['token']!r} {one['probability']:.1%}" for one in tokens)


def write_predictions(path: Path, rows: Sequence[dict[str, Any]], several: Sequence[str] | None = None) -> None:
    """Rows of images as CSV or as JSON lines.

    Columns are named as in an evaluation's predictions, which have the true `label` besides: `file`, `prediction`,
    `probability`, `prediction_2`, `probability_2` ..., `error`. Where an image may have several labels, `prediction`
    joins those of a probability above 0.5 by `|`, and there is a column `probability:NAME` for every class.

    Args:
        path: a `.csv` or `.jsonl` file.
        rows: what `predict` gives.
        several: the names of all classes, where an image may have several.
    """

    def cells(row: dict[str, Any]) -> list[dict[str, Any]]:
        found = _ranked(row["top"], "label") if several is None else _by_class(row, several)
        return [{"file": row["file"], **found, "error": row["error"]}]

    _write(path, rows, cells, "surrogateescape")  # names' own bytes


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows of texts as JSON lines, or as CSV: a line for each text, or for each of its words or masks, which are
    numbered.

    Columns: `text` (or `first` and `second`), `word` or `mask` and their number `place`, `prediction`, `probability`,
    `prediction_2`, `probability_2` ..., `error`; of an embedding `number_1`, `number_2` ...
    """
    _write(path, rows, _lines, "strict")


def write_features(path: Path, what: str, names: Sequence[str], features: np.ndarray) -> None:
    """`features` (float32 `[n, width]`) and their names (text `[n]`), `files` or `texts`, readable by `numpy.load`
    without pickle.
    """
    packed, arrays = io.BytesIO(), {what: np.array(names, dtype=np.str_), "features": features}
    np.savez(packed, **arrays)  # type: ignore[arg-type]
    write_whole(path, lambda partial: partial.write_bytes(packed.getvalue()))


def _write(path: Path, rows: Sequence[dict[str, Any]], cells: Callable, errors: str) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix.lower() == ".csv":
        text = _as_csv([line for row in rows for line in cells(row)])
    write_whole(path, lambda partial: partial.write_bytes(text.encode("utf-8", errors)))


def _as_csv(lines: Sequence[dict[str, Any]]) -> str:
    """Cells as CSV, with every column that a line has; None is an empty cell."""
    columns = list(dict.fromkeys(column for line in lines for column in line if column != "error"))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*columns, "error"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _lines(row: dict[str, Any]) -> list[dict[str, Any]]:
    given = {key: row[key] for key in FIELDS if key in row}
    if "labels" in row:
        given = given or {"text": " ".join(row["words"])}
        values = zip(row["words"], row["labels"], row["probabilities"], strict=True)
        answers: list[dict[str, Any]] = [
            {"place": number, "word": word, "prediction": label, "probability": probability}
            for number, (word, label, probability) in enumerate(values, 1)
        ]
    elif "masks" in row:
        answers = [{"place": number, **_ranked(mask, "token")} for number, mask in enumerate(row["masks"], 1)]
    elif "value" in row:
        answers = [{"prediction": row["value"]}]
    elif "embedding" in row:
        answers = [{f"number_{place}": value for place, value in enumerate(row["embedding"], 1)}]
    else:
        answers = [_ranked(row["top"], "label") if "top" in row else _ranked(row["next"], "token")]
    return [{**given, **answer, "error": row["error"]} for answer in answers or [{"place": None, "prediction": None}]]


def _ranked(answers: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    """Answers by falling probability, as cells."""
    cells: dict[str, Any] = {"prediction": None, "probability": None}
    for rank, one in enumerate(answers, 1):
        which = f"_{rank}" if rank > 1 else ""
        cells |= {f"prediction{which}": one[key], f"probability{which}": one["probability"]}
    return cells


def _by_class(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A row of several labels as cells; probabilities that it doesn't list are empty."""
    listed = {one["index"]: one["probability"] for one in row["top"]}
    said = "|".join(name for index, name in enumerate(names) if listed.get(index, 0) > 0.5)
    return {"prediction": said, **{f"probability:{name}": listed.get(index) for index, name in enumerate(names)}}
