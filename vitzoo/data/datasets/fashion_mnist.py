"""Fashion-MNIST (Xiao et al. 2017, https://arxiv.org/abs/1708.07747), from its four files or as TFDS prepares it."""

import gzip
import pathlib
import zlib
from collections.abc import Mapping

import numpy as np

from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.arrays import array_table
from vitzoo.data.sources.base import Dataset, Source, Table
from vitzoo.errors import UserError

SYSTEM_FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist
CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
FILES = {"train": "train", "test": "t10k"}


class FashionMnist:
    """70,000 photos of clothes, 28 x 28 pixels, one grey channel, 10 classes: train 60,000 and test 10,000.

    Looked for, in order: the four `*-ubyte` files (`.gz` or not) in a data folder or its `fashion-mnist` or
    `fashion_mnist` sub-folder; a folder that TFDS prepared there; the files of Debian's `dataset-fashion-mnist`.
    """

    def __init__(self, data: Data):
        self.dataset = _find(data)

    def open(self, split: str) -> Source:
        return self.dataset.open(split)

    def counts(self) -> Mapping[str, int]:
        return self.dataset.counts()


def _find(data: Data) -> Dataset:
    folders = [folder / sub for folder in data_folders(data) for sub in (".", "fashion-mnist", "fashion_mnist")]
    for folder in folders:
        if files := _files(folder):
            return _read(files)
    if any((folder / "fashion_mnist").is_dir() for folder in data_folders(data)):
        from vitzoo.data.sources.tfds import TfdsDataset

        return TfdsDataset(data)
    if files := _files(SYSTEM_FOLDER):
        return _read(files)
    raise _missing(data)


def _files(folder: pathlib.Path) -> list[pathlib.Path] | None:
    """Images and labels of train, then of test, packed or not; None where one is missing."""
    names = [f"{part}-{kind}" for part in FILES.values() for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    found = [next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None) for name in names]
    return [path for path in found if path] if all(found) else None


def _read(files: list[pathlib.Path]) -> Table:
    arrays = [read_idx(path) for path in files]
    images, labels = np.concatenate(arrays[0::2])[..., None], np.concatenate(arrays[1::2]).astype(np.int32)
    rows = np.split(np.arange(len(labels)), [len(arrays[1])])
    return array_table("fashion_mnist", CLASSES, images, labels, dict(zip(FILES, rows, strict=True)))


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


def _missing(data: Data) -> UserError:
    looked = ", ".join(map(str, [*data_folders(data), SYSTEM_FOLDER]))
    return UserError(
        "data.name",
        "fashion_mnist",
        f"not found in {looked}. Debian and Ubuntu: apt install dataset-fashion-mnist; or put the four files "
        "(train-images-idx3-ubyte.gz ...) into a folder that data.dir names; or: vitzoo data prepare fashion_mnist",
    )
