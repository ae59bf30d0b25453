"""What is printed and written of a pass over texts, words or pairs: tables, the confusion matrix, mistakes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from vitzoo import streams
from vitzoo.evaluation import pictures, tables
from vitzoo.evaluation.report import written
from vitzoo.evaluation.run import Evaluation, Rows
from vitzoo.evaluation.text_regression import RegressionEvaluator

MISTAKES = 200  # the surest, or largest, that are written


def has_predictions(evaluation: Evaluation) -> bool:
    """Whether a pass says something of each example, or word, and not only of tokens."""
    own = isinstance(evaluation.evaluator, RegressionEvaluator) or hasattr(evaluation.evaluator, "predictions")
    return own or evaluation.classes is not None


def write_text_report(
    evaluation: Evaluation, rows: Rows, folder: Path | None, predictions: Path | None, out: TextIO
) -> None:
    """Print the per-class table; write tables and pictures to `folder` and each example's prediction to a file."""
    if not has_predictions(evaluation):
        return
    if hasattr(evaluation.evaluator, "predictions"):  # texts, of which no class or number is right
        if predictions is not None:
            said = evaluation.evaluator.predictions(rows)
            written(predictions, lambda path: tables.write_rows(path, said), out)
        return
    examples = getattr(evaluation.evaluator, "examples", dict)(rows)
    names = None
    if evaluation.classes is not None:
        names = tables.names_of(evaluation.classes.names, evaluation.classes.count)
        _write_classes(examples, names, folder, out)
    table = _table(examples, names, evaluation.source)
    if predictions is not None:
        written(predictions, lambda path: tables.write_rows(path, tables.by_row(table)), out)
    if folder is not None:
        worst = _worst(examples, names is None)
        shown = {key: [column[index] for index in worst] for key, column in table.items()}
        shown["text"] = [_text(evaluation.source, examples, index) for index in worst]
        written(folder / "mistakes.csv", lambda path: _write(path, tables.by_row(shown)), out)


def _write_classes(examples: Rows, names: Sequence[str], folder: Path | None, out: TextIO) -> None:
    per_class = tables.per_class(examples, names)
    tables.print_per_class(per_class, streams.console(out, 120))
    if folder is not None:
        written(folder / "per_class.csv", lambda path: tables.write_csv(path, per_class), out)
        written(folder / "confusion.png", lambda path: pictures.draw_confusion(examples, names, path), out)


def _table(examples: Rows, names: Sequence[str] | None, source: Any) -> dict[str, list]:
    """By column, an entry for each example or word: `id`, `where` it comes from, `word`, `label`, `prediction`, and of
    classes `probability`.
    """
    positions = examples["position"].tolist()
    columns: dict[str, list] = {"id": examples["id"].tolist() if "id" in examples else positions}
    columns["where"] = [source.where(position) for position in positions]
    if "word" in examples:
        columns["word"] = examples["word"].tolist()
    for key in ("label", "prediction"):
        columns[key] = examples[key].tolist() if names is None else [names[index] for index in examples[key]]
    return columns if names is None else columns | {"probability": examples["probability"].tolist()}


def _worst(examples: Rows, numbers: bool) -> list[int]:
    """The mistakes, the surest first; of numbers those that are furthest off."""
    if numbers:
        return np.argsort(-np.abs(examples["label"] - examples["prediction"]), kind="stable")[:MISTAKES].tolist()
    wrong = np.flatnonzero(examples["rank"] > 0)
    return wrong[np.argsort(-examples["probability"][wrong], kind="stable")][:MISTAKES].tolist()


def _text(source: Any, examples: Rows, index: int) -> str:
    example = source[int(examples["position"][index])]
    if "words" in example:
        return example["words"][int(examples["word"][index]) - 1]
    return example["text"] if "text" in example else f"{example['first']}\n{example['second']}"


def _write(path: Path, table: list[dict]) -> bool:
    if table:
        tables.write_csv(path, table)
    return bool(table)
