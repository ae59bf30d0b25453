"""Fashion-MNIST (Xiao et al. 2017, https://arxiv.org/abs/1708.07747), from its own four files or as TFDS prepares it."""

import gzip
import pathlib
import zlib

import numpy as np

from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.arrays import array_table
from vitzoo.data.sources.base import Source
from vitzoo.errors import Refused

SYSTEM_FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist
CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
FILES = {"train": "train", "test": "t10k"}


class FashionMnist:
    """70,000 photos of clothes, 28 x 28 pixels, one grey channel, 10 classes: train 60,000 and test 10,000.

    Looked for, in order: the four `*-ubyte` files (`.gz` or not) in a data folder or its `fashion-mnist` or
    `fashion_mnist` sub-folder; a folder that TFDS prepared there; the files of Debian's `dataset-fashion-mnist`.
    """

    def __init__(self, data: Data):
        self.data = data
        folders = [folder / sub for folder in data_folders(data) for sub in (".", "fashion-mnist", "fashion_mnist")]
        found = next((folder for folder in folders if _holds_files(folder)), None)
        self.prepared = None if found else self._prepared()
        if self.prepared is None:
            found = found or (SYSTEM_FOLDER if _holds_files(SYSTEM_FOLDER) else None)
            if found is None:
                raise _missing(data)
            self.table = _read(found)

    def open(self, split: str) -> Source:
        return self.prepared.open(split) if self.prepared else self.table.open(split)

    def _prepared(self):
        if not any((folder / "fashion_mnist").is_dir() for folder in data_folders(self.data)):
            return None
        from vitzoo.data.sources.tfds import TfdsDataset

        return TfdsDataset(self.data)


def _file(folder: pathlib.Path, part: str, kind: str) -> pathlib.Path | None:
    names = (f"{part}-{kind}", f"{part}-{kind}.gz")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _holds_files(folder: pathlib.Path) -> bool:
    kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
    return all(_file(folder, part, kind) for part in FILES.values() for kind in kinds)


def _read(folder: pathlib.Path):
    images = [read_idx(_file(folder, part, "images-idx3-ubyte")) for part in FILES.values()]
    labels = [read_idx(_file(folder, part, "labels-idx1-ubyte")) for part in FILES.values()]
    ends = np.cumsum([len(part) for part in labels])
    splits = {name: np.arange(end - len(part), end) for name, end, part in zip(FILES, ends, labels, strict=True)}
    return array_table(
        "fashion_mnist", CLASSES, np.concatenate(images)[..., None], np.concatenate(labels).astype(np.int32), splits
    )


def read_idx(path: pathlib.Path) -> np.ndarray:
    """An array of uint8 in the IDX format of MNIST's files: two zero bytes, 8 for uint8, the number of axes, their lengths.

    Raises:
        Refused: the file is damaged or of another kind.
    """
    try:
        content = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        axes = content[3]
        shape = np.frombuffer(content, ">u4", axes, 4).astype(int)
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
        if content[:3] != b"\0\0\x08":
            raise ValueError("not an IDX file of bytes")
        return values.reshape(shape)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise Refused("data.name", path, f"can't be read: {error}") from error


def _missing(data: Data) -> Refused:
    looked = ", ".join(map(str, [*data_folders(data), SYSTEM_FOLDER]))
    return Refused(
        "data.name",
        "fashion_mnist",
        f"not found in {looked}. Debian and Ubuntu: apt install dataset-fashion-mnist; or put train-images-idx3-ubyte.gz and "
        "the three files beside it into a folder and point data.dir to it; or run: vitzoo data prepare fashion_mnist",
    )
