"""Image files written once as a prepared TFDS dataset."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from vitzoo.data.sources.base import Table


def builder_of(table: Table, name: str) -> type:
    """A TFDS builder class that writes a table's files as they are, in their order, with its classes and splits."""
    made = f"{name.title().replace('_', '')}Files"
    namespace = {"name": name, "table": table, "__module__": __name__}
    return type(made, (FilesBuilder,), namespace, skip_registration=True)  # type: ignore[call-overload]


class FilesBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Base of the classes that `builder_of` makes."""

    VERSION = tfds.core.Version("1.0.0")
    table: Table

    def _info(self) -> tfds.core.DatasetInfo:
        labels = tfds.features.ClassLabel(names=list(self.table.classes))
        shape = self.table.image_shape or (None, None)
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"{self.table.name}, {len(self.table.labels):,} images",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(*shape, 1 if self.table.channels == 1 else 3)),
                    "label": tfds.features.Sequence(labels) if self.table.labels.ndim == 2 else labels,
                }
            ),
            supervised_keys=("image", "label"),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
        return {split: self._generate_examples(rows) for split, rows in self.table.splits.items()}

    def _generate_examples(self, rows: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        for row in rows:
            label = self.table.labels[row]
            label = np.flatnonzero(label).tolist() if self.table.labels.ndim == 2 else int(label)
            yield int(row), {"image": self.table.read(int(row)), "label": label}
