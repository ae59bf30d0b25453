"""Predictions, embeddings and features as lines, as tables, as files."""

import csv
import io
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np

from vitzoo.data.text.user_texts import TextInput
from vitzoo.data.user_inputs import Input
from vitzoo.inference.tasks import Prediction, Task, TokenAnswer
from vitzoo.outputs import write_whole, wrote
from vitzoo.spelling import shared_note
from vitzoo.streams import on_one_line
from vitzoo.weights.info import Info

FIELDS: tuple[Literal["file", "text", "first", "second"], ...] = ("file", "text", "first", "second")
TEXT_FIELDS: tuple[Literal["text", "first", "second", "words"], ...] = ("text", "first", "second", "words")


def shown(row: Prediction) -> str:
    """The answer of a row in one line."""
    return on_one_line(_answer(row))


def _answer(row: Prediction) -> str:
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


def _shown_tokens(tokens: list[TokenAnswer]) -> str:
    return "  ".join(f"{one['token']!r} {one['probability']:.1%}" for one in tokens)


def write_rows(path: Path, rows: Sequence[Prediction], columns: Sequence[str] | None = None) -> None:
    """Rows as JSON lines, or as CSV: a line for each file or text, or for each of a text's words or masks, which are
    numbered.

    Columns are named as in an evaluation's predictions, which have the true `label` besides: `file` or `text` (or
    `first` and `second`), `word` or `mask` and their number `place`, `prediction`, `probability`, `prediction_2`,
    `probability_2` ..., `error`; of an embedding `number_1`, `number_2` ... Where a row may be of several classes,
    `prediction` joins those of a probability above 0.5 by `|`, and every class has a column `probability:NAME`.

    Args:
        path: a `.csv` or `.jsonl` file.
        rows: what `predict` gives.
        columns: the names of all classes, where a row may be of several.
    """
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix.lower() == ".csv":
        text = _as_csv([line for row in rows for line in _lines(row, columns)])
    write_whole(path, lambda partial: partial.write_bytes(text.encode("utf-8", "surrogateescape")))  # names' own bytes


def write_features(path: Path, what: str, names: Sequence[str], features: np.ndarray) -> None:
    """`features` (float32 `[n, width]`) and their names (text `[n]`), `files` or `texts`, readable by `numpy.load`
    without pickle.
    """
    packed, arrays = io.BytesIO(), {what: np.array(names, dtype=np.str_), "features": features}
    np.savez(packed, **arrays)  # type: ignore[arg-type]
    write_whole(path, lambda partial: partial.write_bytes(packed.getvalue()))


def _as_csv(lines: Sequence[dict[str, Any]]) -> str:
    """Cells as CSV, with every column that a line has; None is an empty cell."""
    columns = list(dict.fromkeys(column for line in lines for column in line if column != "error"))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*columns, "error"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _lines(row: Prediction, columns: Sequence[str] | None) -> list[dict[str, Any]]:
    given: dict[str, Any] = {key: row[key] for key in FIELDS if key in row}
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
        answers = [_ranked(row["next"], "token") if "next" in row else _classes(row, columns)]
    return [{**given, **answer, "error": row["error"]} for answer in answers or [{"place": None, "prediction": None}]]


def _ranked(answers: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    """Answers by falling probability, as cells."""
    cells: dict[str, Any] = {"prediction": None, "probability": None}
    for rank, one in enumerate(answers, 1):
        which = f"_{rank}" if rank > 1 else ""
        cells |= {f"prediction{which}": one[key], f"probability{which}": one["probability"]}
    return cells


def _classes(row: Prediction, names: Sequence[str] | None) -> dict[str, Any]:
    """A row of classes as cells; of several labels with those probabilities empty that it doesn't list."""
    if names is None:
        return _ranked(row["top"], "label")
    listed = {one["index"]: one["probability"] for one in row["top"]}
    said = "|".join(name for index, name in enumerate(names) if listed.get(index, 0) > 0.5)
    return {"prediction": said, **{f"probability:{name}": listed.get(index) for index, name in enumerate(names)}}


def exit_code(rows: Sequence[Prediction]) -> int:
    """How the command ends: 0 if something could be said of every input, else 1; the rows say of which not, and why."""
    return 0 if all(row["error"] is None for row in rows) else 1


def say_first(info: Info, task: Task, given: Sequence[Input], out: TextIO) -> None:
    """What is used, and on how many inputs."""
    print(f"loads    {info.checkpoint}: step {info.step}, weights {info.weights}, {task.says}", file=out)
    print("\n".join(info.lines()), file=out)
    for note in shared_note(info.classes or (), "classes"):
        print(f"note     {note}", file=out)
    left_out, warnings = task.notes(given)
    print(f"{info.processor.noun + 's':<9}{len(given):,}{left_out}", file=out, flush=True)
    for line in warnings:
        print(f"warning: {line}", file=out, flush=True)


def say_rows(rows: Sequence[Prediction], out: TextIO | None = None) -> None:
    """Print a line for each input: what it is, and what is said of it or why nothing is."""
    for row in rows:
        name = row["file"] if "file" in row else TextInput({key: row[key] for key in TEXT_FIELDS if key in row}).name
        print(f"{name}  {shown(row)}", file=out or sys.stdout)


def say_written(
    rows: Sequence[Prediction],
    output: str | Path | None,
    features: str | Path | None,
    out: TextIO | None = None,
    *,
    before: Collection[str] = (),
) -> None:
    """Name the files that were written, with how much each holds, and those of them that were there `before`."""
    texts, read = _count(len(rows), "text"), sum(row["error"] is None for row in rows)
    of_texts = "file" not in rows[0]
    if output is not None:
        print(f"{wrote(output, before)}: {texts if of_texts else f'{len(rows):,} rows'}", file=out or sys.stdout)
    if features is not None:
        noun = "array" if rows[0].get("file", "").endswith(".npy") else "image"
        said = f"embeddings of {texts}" if of_texts else f"features of {_count(read, noun)}"
        print(f"{wrote(features, before)}: {said}", file=out or sys.stdout)


def say_similar(texts: Sequence[str], values: Sequence[Sequence[float]], out: TextIO | None = None) -> None:
    """Print the cosine of two texts, or the table of several."""
    if len(texts) == 2:
        print(f"cosine  {values[0][1]:.4f}", file=out or sys.stdout)
        return
    for text, row in zip(texts, values, strict=True):
        cells = "  ".join(f"{value:7.4f}" for value in row)
        print(f"{cells}  {TextInput({'text': text}).name}", file=out or sys.stdout)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
