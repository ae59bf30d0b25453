"""Folders of a run for its evaluations on other data: each is named by the data, and none takes another's place."""

import itertools
import re
from pathlib import Path

from vitzoo import strict_json
from vitzoo.paths import expanded

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
