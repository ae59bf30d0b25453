"""The records of a dataset in TFDS's layout as they are, for datasets that make something else of them."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from vitzoo.data import splits
from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import fingerprint
from vitzoo.data.sources.tfds_folders import NAME, find_prepared, import_catalogue, missing, open_records
from vitzoo.errors import Refused
from vitzoo.schema import patch


class Records:
    """All splits of a dataset of TFDS's catalogue, prepared as ArrayRecord.

    Args:
        data: where it is looked for; what is asked of it is named in refusals.
        name: TFDS's, NAME or NAME/CONFIG.
        text: whether it holds text, else images, which are left encoded.

    Raises:
        Refused: it isn't prepared in any of the data folders, or not as ArrayRecord.
    """

    def __init__(self, data: Data, name: str, text: bool = False):
        self.data, self.text = patch(data, {"name": name}), text
        self.builder = self._builder()
        if not self.counts():  # of the catalogue, and on no disk
            raise missing(self.data, known=True, text=text)

    @property
    def features(self) -> Mapping[str, Any]:
        """TFDS's features by name."""
        return self.builder.info.features

    def counts(self) -> Mapping[str, int]:
        """The examples of each split."""
        return {name: info.num_examples for name, info in self.builder.info.splits.items()}

    def open(self, split: str) -> Any:
        """The records of a split, by position: dicts of NumPy values."""
        images = [key for key, feature in self.features.items() if isinstance(feature, tfds.features.Image)]
        skip = {key: tfds.decode.SkipDecoding() for key in images} or None  # the pipeline decodes them
        return open_records(self.data, self.builder, split, skip)

    def ids(self, split: str) -> np.ndarray:
        """Positions int64 [examples] in all splits laid end to end, so that no two examples of a dataset share one."""
        counts, starts, total = self.counts(), {}, 0
        for name, examples in counts.items():
            starts[name], total = total, total + examples
        pieces = splits.parse(split, counts)
        return np.concatenate([np.arange(piece.start, piece.stop) + starts[piece.name] for piece in pieces])

    def mark(self, *told: Any) -> str:
        """A fingerprint of the prepared files and of what is told besides."""
        info = self.builder.info
        shards = sorted((name, part.shard_lengths, part.num_bytes) for name, part in info.splits.items())
        return fingerprint(info.full_name, shards, *told)

    def _builder(self) -> Any:
        match = NAME.fullmatch(self.data.name)
        if not match:
            raise Refused("data.name", self.data.name, "is no name of TFDS")
        for folder in data_folders(self.data):
            if found := find_prepared(folder, match["name"], match["config"], match["version"]):
                return tfds.builder_from_directory(os.fspath(found))
        import_catalogue()
        try:
            return tfds.builder(self.data.name, data_dir=os.fspath(data_folders(self.data)[0]))
        except Exception as error:  # an unknown name, or a part of the catalogue that needs a library that isn't there
            known = not isinstance(error, tfds.core.DatasetNotFoundError)
            raise missing(self.data, known=known, text=self.text) from error
