"""What is printed and written of one evaluator's pass: tables, pictures, predictions."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from vitzoo import streams
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import decode
from vitzoo.evaluation import pictures, tables
from vitzoo.evaluation.classes import Mapping
from vitzoo.evaluation.run import Evaluation, Rows
from vitzoo.outputs import write_whole


@dataclasses.dataclass(frozen=True)
class Report:
    """A finished pass: the evaluation, its classes and rows, and the channels in which its images are shown."""

    evaluation: Evaluation
    classes: Mapping
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


def write_report(report: Report, folder: Path | None, predictions: Path | None, out: TextIO) -> None:
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
    written(folder / "mistakes.png", lambda path: pictures.draw_mistakes(rows, names, report.image, path), out)


def written(path: Path, write: Callable[[Path], Any], out: TextIO) -> None:
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
