"""The records of a dataset in TFDS's layout as they are, for datasets that make something else of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.data import splits
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import fingerprint
from vitzoo.data.sources.tfds_folders import (
    NAME,
    catalogue_builder,
    example_counts,
    missing,
    open_records,
    positions,
    prepared_builder,
    shards_of,
)
from vitzoo.errors import UserError
from vitzoo.schema import patch


class Records:
    """All splits of a dataset of TFDS's catalogue, prepared as ArrayRecord; images are left encoded.

    Args:
        data: where it is looked for; what is asked of it is named in refusals.
        name: TFDS's, NAME or NAME/CONFIG.

    Raises:
        UserError: it isn't prepared in any of the data folders, or not as ArrayRecord.
    """

    def __init__(self, data: Data, name: str):
        self.data = patch(data, {"name": name})
        match = NAME.fullmatch(name)
        if not match:
            raise UserError("data.name", name, "is no name of TFDS")
        found = prepared_builder(self.data, match["name"], match["config"], match["version"])
        self.builder = found or catalogue_builder(self.data)
        if not self.counts():  # of the catalogue, and on no disk
            raise missing(self.data, known=True)

    @property
    def features(self) -> Mapping[str, Any]:
        """TFDS's features by name."""
        return self.builder.info.features

    def counts(self) -> Mapping[str, int]:
        """The examples of each split."""
        return example_counts(self.builder)

    def open(self, split: str) -> Any:
        """The records of a split, by position: dicts of NumPy values."""
        return open_records(self.data, self.builder, split)

    def ids(self, split: str) -> np.ndarray:
        """Positions int64 [examples] in all splits laid end to end, so that no two examples of a dataset share one."""
        counts = self.counts()
        pieces = splits.parse(split, counts)
        return positions(counts, pieces, sum(piece.stop - piece.start for piece in pieces))

    def mark(self, *told: Any) -> str:
        """A fingerprint of the prepared files and of what is told besides."""
        return fingerprint(self.builder.info.full_name, shards_of(self.builder), *told)
