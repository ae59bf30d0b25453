"""What is printed and written of one evaluator's pass: tables, pictures, predictions; and the folders where it lies.

Evaluations on other data than the run's have folders named by the data, and none takes another's place.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from vitzoo import streams, strict_json
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import decode
from vitzoo.evaluation import own_evaluators, pictures, tables
from vitzoo.evaluation.classes import ClassMapping
from vitzoo.evaluation.run import Evaluation
from vitzoo.evaluation.settings import Rows, WithExamples, WithPredictions
from vitzoo.evaluation.text_labels import RegressionEvaluator
from vitzoo.outputs import write_whole
from vitzoo.paths import expanded


@dataclasses.dataclass(frozen=True)
class ClassReport:
    """A finished pass: the evaluation, its classes and rows, and the channels in which its images are shown."""

    evaluation: Evaluation
    classes: ClassMapping
    rows: Rows
    channels: int

    @property
    def names(self) -> tuple[str, ...]:
        """Class names, numbers where there are none."""
        return tables.names_of(self.classes.names, self.classes.count)

    def image(self, position: int) -> np.ndarray:
        """An example's image as it is stored, uint8 `[height, width, channels]`; a white point if it has become
        unreadable since it was evaluated.
        """
        try:
            return decode(self.evaluation.source[position]["image"], self.channels)
        except (BadImage, OSError):
            return np.full((1, 1, self.channels), 255, np.uint8)


def write_report(report: ClassReport, folder: Path | None, predictions: Path | None, out: TextIO) -> None:
    """Print the per-class table; write tables and pictures to `folder` and each example's prediction to a file."""
    rows, names = report.rows, report.names
    per_class = tables.per_class(rows, names)
    tables.print_per_class(per_class, streams.console(out, 120))
    if predictions is not None:
        table = tables.predictions(rows, names, report.evaluation.source.info.files)
        written(predictions, lambda path: tables.write_rows(path, table), out)
    if folder is None:
        print("no pictures: the checkpoint lies outside a run; an output folder can be named", file=out)
        return
    written(folder / "per_class.csv", lambda path: tables.write_csv(path, per_class), out)
    written(folder / "confusion.png", lambda path: pictures.draw_confusion(rows, names, path), out)
    files = report.evaluation.source.info.files
    written(folder / "mistakes.png", lambda path: pictures.draw_mistakes(rows, names, report.image, path, files), out)


def written(path: Path, write: Callable[[Path], bool | int | None], out: TextIO) -> None:
    """Write a file whole or not at all, and say so; `write` returns False where there is nothing to write.

    A file of an earlier evaluation is replaced, which is said; where there is nothing to write it is removed, since it
    would belong to other numbers.

    Raises:
        RunError: the folder can't be written to.
    """
    there = path.is_file()
    if write_whole(path, write):
        print(f"{'replaced' if there else 'wrote   '} {path}", file=out)
    elif there:
        path.unlink(missing_ok=True)
        print(f"removed  {path}", file=out)


MISTAKES = 200  # the surest, or largest, that are written


def has_predictions(evaluation: Evaluation) -> bool:
    """Whether a pass says something of each example, or word, and not only of tokens."""
    return isinstance(evaluation.evaluator, RegressionEvaluator | WithPredictions) or evaluation.classes is not None


def write_text_report(
    evaluation: Evaluation, rows: Rows, folder: Path | None, predictions: Path | None, out: TextIO
) -> None:
    """Print the per-class table; write tables and pictures to `folder` and each example's prediction to a file."""
    if not has_predictions(evaluation):
        return
    evaluator = evaluation.evaluator
    if isinstance(evaluator, WithPredictions):  # texts, of which no class or number is right
        if predictions is not None:
            said = evaluator.predictions(rows)
            own_evaluators.check_predictions(evaluation.settings, said)
            written(predictions, lambda path: tables.write_rows(path, said), out)
        return
    examples = evaluator.examples(rows) if isinstance(evaluator, WithExamples) else rows
    own_evaluators.check_examples(evaluation.settings, examples)
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
    texts = [example[name] for name in ("text", "first", "second") if name in example]
    return "\n".join(texts) if texts else source.where(int(examples["position"][index]))


def _write(path: Path, table: list[dict]) -> bool:
    if table:
        tables.write_csv(path, table)
    return bool(table)


LONGEST = 100  # bytes of a dataset's or a split's name: a folder's name has room for 255


def free_folder(parent: Path, dataset: str, split: str, kind: str = "") -> Path:
    """The folder for an evaluation of these data: `mnist_5k-test`, `photos-validation-all_classes`.

    Where other data of the same short name were evaluated there, as `folder:a/photos` and `folder:b/photos` may be, a
    number is added.

    Args:
        parent: of all evaluations of one checkpoint.
        dataset: as `data.name`.
        split: as `data.split`.
        kind: what else tells this evaluation from others of the same data: `-all_classes`.
    """
    name = f"{short_name(dataset)}-{safe(split)}{kind}"
    numbered = (parent / (f"{name}-{number}" if number > 1 else name) for number in itertools.count(1))
    return next(folder for folder in numbered if holds(folder) in (None, (dataset, split)))


def holds(folder: Path) -> tuple[str, str] | None:
    """The dataset and split whose evaluation lies in a folder; None where none does."""
    try:
        values = strict_json.read(folder / "metrics.json")
        return values["dataset"], values["split"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def short_name(dataset: str) -> str:
    """A dataset's name for a folder: of a path the last part, of `csv:photos/labels.csv` therefore `labels`."""
    kind, _, path = dataset.partition(":")
    if kind in ("folder", "csv", "text", "jsonl") and path:
        last = expanded(path).absolute()
        dataset = last.name if kind == "folder" else last.stem
    return safe(dataset)


def safe(text: str) -> str:
    """Text as part of a file's name: letters, digits, `_`, `-` and `.`, other characters as `_`."""
    plain = re.sub(r"[^\w.-]+", "_", text).strip("._-")
    return plain.encode()[:LONGEST].decode(errors="ignore") or "data"
