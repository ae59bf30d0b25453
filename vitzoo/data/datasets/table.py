"""What the named text datasets share: where their files are found, and examples held in memory with fixed splits."""

import pathlib
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from vitzoo.data.duplicates import checksum
from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table, kinds_of
from vitzoo.data.splits import SEED
from vitzoo.errors import UserError
from vitzoo.strict_json import JSON

HELD_OUT = 0.05  # fraction of the groups in validation, and in test


class Held:
    """Reads example i of columns held in memory; says where it comes from."""

    def __init__(self, columns: Mapping[str, Sequence[JSON]], places: Sequence[str]):
        self.columns, self.places = columns, places

    def __call__(self, index: int) -> dict[str, JSON]:
        return {field: values[index] for field, values in self.columns.items()}

    def where(self, index: int) -> str:
        return self.places[index]


def find_folder(data: Data, places: Sequence[str], needs: str, remedy: str, system: Sequence[str] = ()) -> pathlib.Path:
    """The first folder that holds a file matching `needs`.

    Args:
        data: names the dataset and the data folders.
        places: folders looked for within those, and within the current folder.
        needs: a pattern of file names.
        remedy: how to get the files, for the refusal.
        system: whole paths that are looked at too.

    Raises:
        UserError: none of them has it.
    """
    roots = [*data_folders(data), pathlib.Path()]
    folders = [root / place for root in roots for place in places] + [pathlib.Path(path) for path in system]
    for folder in folders:
        if next(folder.glob(needs), None) is not None:
            return folder
    looked = ", ".join(dict.fromkeys(str(folder) for folder in folders))
    raise UserError("data.name", data.name, f"no {needs} in {looked}. {remedy}")


def table(
    name: str,
    columns: Mapping[str, Sequence[JSON]],
    groups: Sequence[Hashable],
    where: Sequence[str],
    classes: tuple[str, ...] | None = None,
    notes: tuple[str, ...] = (),
) -> Table:
    """Examples held in memory, split by group: a twentieth of the groups is test, another validation.

    Args:
        name: of the dataset.
        columns: by field, a value for each example; `label` holds indices of `classes`.
        groups: of each example; those of one group share a split.
        where: each example comes from.
        classes: names of the labels.
        notes: what was left out.
    """
    held = Held(columns, where)
    return Table(
        name=name,
        fields=kinds_of(columns),
        splits=_mixed(split_by_group(groups)) if "label" in columns else split_by_group(groups),
        checksums=np.array([checksum(repr(row).encode()) for row in zip(*columns.values(), strict=True)], np.uint64),
        read=held,
        where=held.where,
        classes=classes,
        labels=np.array(columns["label"], np.int32) if "label" in columns else None,
        notes=notes,
    )


def _mixed(splits: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each split in an order drawn once: files come class by class, and a slice of them is to hold all classes."""
    return {name: np.random.RandomState(SEED).permutation(rows) for name, rows in splits.items()}


def split_by_group(groups: Sequence[Hashable]) -> dict[str, np.ndarray]:
    """Rows of train, validation and test, in the data's order, by a fixed permutation of the groups."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    held = max(1, round(len(numbers) * HELD_OUT))
    place = np.random.RandomState(SEED).permutation(len(numbers))
    places = place[[numbers[group] for group in groups]]
    return {
        "train": np.flatnonzero(places >= 2 * held),
        "validation": np.flatnonzero((places >= held) & (places < 2 * held)),
        "test": np.flatnonzero(places < held),
    }
