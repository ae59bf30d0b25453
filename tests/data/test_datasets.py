"""The datasets that come with packages, counted."""

import gzip
import pathlib
import struct

import numpy as np
import pytest

from vitzoo.data.datasets import mnist
from vitzoo.data.datasets.mnist import stratified_order
from vitzoo.data.open import open_dataset, open_source
from vitzoo.data.settings import Data
from vitzoo.errors import UserError


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def clothes(tmp_path) -> pathlib.Path:
    """Four files like Fashion-MNIST's, packed and not, with 20 and 10 images."""
    for part, count in (("train", 20), ("t10k", 10)):
        images = np.arange(count * 784, dtype=np.uint8).reshape(count, 28, 28)
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.arange(count, dtype=np.uint8) % 10))
    return tmp_path


def test_fashion_mnist_is_read_from_its_files_in_the_data_folder(clothes):
    data = Data(name="fashion_mnist", dir=str(clothes))
    assert dict(open_dataset(data).counts()) == {"train": 20, "test": 10}
    test = open_source(data, "test")
    assert test.info.classes[9] == "Ankle boot"
    assert test.info.image_shape == (28, 28)
    assert test.info.channels == 1
    assert test[3]["label"] == 3
    assert test.ids[3] == 23
    assert test[0]["image"][0, 5, 0] == 5


def test_where_fashion_mnist_is_not_found_every_place_and_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "SYSTEM_FOLDER", tmp_path / "system")
    with pytest.raises(
        UserError, match=rf"not found in {tmp_path}/mine, .*{tmp_path}/system. .*apt install dataset-fashion"
    ):
        open_source(Data(name="fashion_mnist", dir=str(tmp_path / "mine")))


@pytest.mark.parametrize(
    "damage", [b"", b"\0\0\x0d\1", gzip.compress(b"x" * 100)[:20]], ids=["empty", "other magic", "cut gzip"]
)
def test_a_damaged_file_is_named(clothes, damage):
    path = clothes / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage)
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte.gz: can't be read"):
        open_source(Data(name="fashion_mnist", dir=str(clothes)))


def test_mnist_5k_holds_out_a_hundred_of_each_digit():
    train, test = (open_source(Data(name="mnist_5k"), split) for split in ("train", "test"))
    assert train.info.class_counts == (400,) * 10
    assert test.info.class_counts == (100,) * 10
    assert train.info.image_shape == (28, 28)
    assert not set(train.ids) & set(test.ids)
    assert all(20 <= count <= 60 for count in open_source(Data(name="mnist_5k"), "train[:10%]").info.class_counts)
    assert open_source(Data(name="mnist_5k"), "train[:10%]").info.notes == ()


def test_a_stratified_split_shares_every_class_and_is_always_the_same():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    train, held = stratified_order(labels, 10, seed=0)
    assert np.bincount(labels[held]).tolist() == [5, 3, 2]
    assert sorted([*train, *held]) == list(range(100))
    assert held.tolist() == [2, 10, 11, 28, 41, 73, 75, 76, 89, 97]
