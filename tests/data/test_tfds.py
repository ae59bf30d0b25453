"""Datasets in TFDS's layout are read without TensorFlow and without a network."""

import importlib.util
import os
import pathlib
import socket
import time

import numpy as np
import pytest
from made_pictures import picture

from vitzoo.checksums import LIST
from vitzoo.data.examples import ExampleRows
from vitzoo.data.images import decode
from vitzoo.data.open import open_dataset, open_source
from vitzoo.data.pipeline import TrainStream, eval_batches
from vitzoo.data.prepare import prepare
from vitzoo.data.processors.image import ImageArrays
from vitzoo.data.settings import Augment, Data, Preprocessing
from vitzoo.errors import RunError, UserError


@pytest.fixture
def nothing_prepared(monkeypatch, tmp_path) -> pathlib.Path:
    """A data folder that isn't there yet, and no other."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "prepared"))
    return tmp_path / "prepared"


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError(f"a network was asked for: {args}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_digits_are_prepared_at_first_use_and_split_by_class(no_network):
    train, test = (open_source(Data(name="digits"), split) for split in ("train", "test"))
    assert (train.info.n, test.info.n) == (1437, 360)
    assert train.info.classes == tuple("0123456789")
    assert train.info.image_shape == (8, 8)
    assert train.info.channels == 1
    everything = np.array([178, 182, 177, 183, 181, 182, 181, 179, 174, 180])  # of load_digits
    counts = np.array([train.info.class_counts, test.info.class_counts])
    assert (counts.sum(0) == everything).all()
    assert np.abs(counts[1] - everything * 360 / 1797).max() < 1


def test_digits_in_file_order_hold_out_the_last_360(no_network):
    from sklearn.datasets import load_digits

    levels, labels = load_digits(return_X_y=True)
    test = open_source(Data(name="digits/file_order"), "test")
    assert test.labels().tolist() == labels[-360:].tolist()
    pixels = decode(test[0]["image"], 1)
    assert pixels.max() == 255  # level 16
    assert pixels.ravel().tolist() == np.round(levels[1437] * 255 / 16).astype(int).tolist()


def test_the_split_of_digits_never_changes():
    test = open_source(Data(name="digits"), "test")
    assert test.labels()[:12].tolist() == [3, 7, 3, 9, 0, 8, 7, 0, 8, 0, 3, 3]
    assert test.info.fingerprint == open_source(Data(name="digits"), "test").info.fingerprint


def test_of_two_processes_that_prepare_at_once_the_later_uses_what_the_first_wrote(nothing_prepared, monkeypatch):
    from vitzoo.data.datasets.digits import Digits

    generate, first = Digits._generate_examples, []

    def overtaken(self, *arguments):
        if not first:
            first.append(True)
            first.append(prepare("digits").folder)
        return generate(self, *arguments)

    monkeypatch.setattr(Digits, "_generate_examples", overtaken)
    assert len(open_source(Data(name="digits"))) == 1437
    assert first[1] == nothing_prepared / "digits" / "stratified" / "1.0.0"
    assert [path.name for path in nothing_prepared.iterdir()] == ["digits"]  # nothing temporary is left


def test_ids_are_the_same_in_every_slice_and_differ_between_splits():
    data = Data(name="digits")
    assert open_source(data, "test[10:12]+train[:2]").ids.tolist() == [1447, 1448, 0, 1]
    first, rest = open_source(data, "train[:67%]"), open_source(data, "train[67%:]")
    assert sorted([*first.ids, *rest.ids]) == list(range(1437))


def test_slices_read_the_records_they_name():
    data = Data(name="digits")
    whole = open_source(data, "train").labels()
    assert open_source(data, "train[100:110]").labels().tolist() == whole[100:110].tolist()


def test_data_that_is_not_there_is_refused_at_once_naming_folders_and_remedy(tmp_path, no_network, nothing_prepared):
    start = time.monotonic()
    with pytest.raises(UserError) as raised:
        open_source(Data(name="imagenet2012", dir=str(tmp_path / "mine")))
    assert time.monotonic() - start < 10
    message = str(raised.value)
    assert message.startswith(
        f"data.name = imagenet2012: not prepared; looked in {tmp_path}/mine, {nothing_prepared}, "
    )
    assert message.endswith(f"or run: vitzoo data prepare imagenet2012 --dir {tmp_path}/mine")


@pytest.mark.parametrize("name", ["imagenat2012", "no such thing", "digits/other"])
def test_an_unknown_name_is_refused(name, no_network):
    with pytest.raises(UserError, match=f"data.name = {name}: "):
        open_source(Data(name=name))


def test_an_unwritable_data_folder_is_refused(nothing_prepared):
    nothing_prepared.touch()
    with pytest.raises(UserError, match=r"data.dir = .*can't be written"):
        open_source(Data(name="digits"))


def test_a_catalogue_dataset_is_read_from_mock_data(no_network):
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=6):
        data = Data(name="imagenet2012", split="train[:99%]", batch_size=4)
        source = open_source(data)
        assert source.info.n == 6
        assert len(source.info.classes) == 1000
        assert source.info.channels == 3
        augment = Augment(crop="inception", flip=True, randaugment_layers=2)
        images = ExampleRows(source, data, (ImageArrays(Preprocessing(), (32, 32), 3, augment),))
        stream = TrainStream(images, data, seed=0)
        batch = next(stream.iterate(0))
        stream.close()
        assert batch["image"].shape == (4, 32, 32, 3)
        assert batch["label"].max() < 1000
        validation = open_source(data, "validation")
        held_out = ExampleRows(validation, data, (ImageArrays(Preprocessing(), (32, 32), 3),))
        counted = eval_batches(held_out, data, batch_size=4)
        assert sum(batch["example_weight"].sum() for batch in counted) == 6


def test_a_folder_written_as_array_record_reads_as_the_folder_did(photos, tmp_path, no_network):
    data = Data(name=f"folder:{photos}", validation_fraction=0.2)
    written = prepare(data.name, dir=str(tmp_path / "prepared"), shards=3, validation_fraction=0.2).folder
    assert written == tmp_path / "prepared" / "photos" / "1.0.0"
    assert len(list(written.glob("photos-train.array_record-*"))) == 3
    for split in ("train", "validation"):
        was, now = open_source(data, split), open_source(Data(name="photos", dir=str(tmp_path / "prepared")), split)
        assert now.info.classes == ("cat", "dog")
        assert now.labels().tolist() == was.labels().tolist()
        assert [now[i]["image"] for i in range(len(now))] == [was[i]["image"] for i in range(len(was))]
    with pytest.raises(UserError, match="is there already"):
        prepare(data.name, dir=str(tmp_path / "prepared"))


def test_several_labels_survive_preparation(tmp_path):
    for number in range(3):
        picture(tmp_path / f"{number}.png")
    (tmp_path / "birds.csv").write_text("file,labels\n0.png,a|b\n1.png,\n2.png,b\n")
    prepare(f"csv:{tmp_path}/birds.csv", dir=str(tmp_path / "prepared"), validation_fraction=0.0)
    source = open_source(Data(name="birds", dir=str(tmp_path / "prepared")))
    assert source.info.multi_label
    assert source.labels().tolist() == [[1, 1], [0, 0], [0, 1]]


def test_the_data_folder_may_be_the_prepared_folder_itself(photos, tmp_path):
    written = prepare(f"folder:{photos}", dir=str(tmp_path / "prepared")).folder
    assert open_source(Data(name="photos", dir=str(written))).info.n == 27


def test_preparing_from_the_catalogue_asks_for_tensorflow(no_network):
    with pytest.raises(UserError, match=r"the extra `prepare`: pip install -e '.\[prepare\]'"):
        prepare("cifar10")
    with pytest.raises(UserError, match="the extra `prepare`"):
        prepare("glue/sst2")  # of a part of the catalogue that TFDS imports when asked
    with pytest.raises(UserError, match="no dataset of this name"):
        prepare("cifar11")


@pytest.fixture
def with_tensorflow(monkeypatch):
    """A builder fails before it needs TensorFlow, whose presence alone is asked for."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "tensorflow" or find(name))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (AssertionError("Manual directory does not exist"), ""),
        (FileNotFoundError("ILSVRC2012_img_val.tar"), " (FileNotFoundError: ILSVRC2012_img_val.tar)"),
    ],
)
def test_files_to_be_fetched_by_hand_are_asked_for_with_their_place(
    tmp_path, with_tensorflow, monkeypatch, fault, told
):
    import tensorflow_datasets as tfds

    def nothing_there(builder, **_):
        raise fault

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", nothing_there)
    with pytest.raises(UserError) as raised:
        prepare("imagenet2012", dir=str(tmp_path))
    assert str(raised.value).startswith(
        f"data.name = imagenet2012: its files are fetched by hand and put into {tmp_path}/downloads/manual{told}: "
        "manual_dir should contain two files: ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar."
    )


def test_a_download_that_fails_is_one_line_and_keeps_what_came(tmp_path, with_tensorflow, monkeypatch):
    import tensorflow_datasets as tfds

    def unreachable(builder, **_):
        raise ConnectionError("Failed to resolve\n'www.example.org'")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", unreachable)
    with pytest.raises(RunError) as raised:
        prepare("cifar10", dir=str(tmp_path))
    assert str(raised.value) == (
        "cifar10 was not prepared: ConnectionError: Failed to resolve 'www.example.org'; "
        f"what was downloaded stays in {tmp_path}/downloads"
    )
    assert not list(tmp_path.glob(".vitzoo-prepare-*"))


def test_preparing_digits_gives_their_folder():
    prepared = prepare("digits")
    assert (prepared.folder / "dataset_info.json").exists()
    assert prepared == prepare("digits")


def test_records_that_cannot_be_read_by_position_are_refused(tmp_path, photos):
    written = prepare(f"folder:{photos}", dir=str(tmp_path / "prepared")).folder
    (written / LIST).unlink()
    info = written / "dataset_info.json"
    info.write_text(info.read_text().replace("array_record", "tfrecord"))
    with pytest.raises(UserError, match="holds tfrecord files, which can't be read by position; prepare it"):
        open_source(Data(name="photos", dir=str(tmp_path / "prepared")))


def test_the_folders_looked_in_are_in_order(monkeypatch, tmp_path):
    from vitzoo.data.folders import data_folders

    monkeypatch.setenv("TFDS_DATA_DIR", "/b")
    home = pathlib.Path(os.path.expanduser("~/tensorflow_datasets"))
    assert data_folders(Data(name="x", dir="/a")) == [pathlib.Path("/a"), pathlib.Path("/b"), home]


def test_a_users_own_dataset_is_found_by_its_path(tmp_path, monkeypatch):
    (tmp_path / "own_data.py").write_text(
        "import numpy as np\n"
        "from vitzoo.data.arrays import image_table\n"
        "def Stripes(data):\n"
        "    images, labels = np.zeros((6, 4, 4, 3), np.uint8), np.arange(6, dtype=np.int32) % 2\n"
        "    splits = {'train': np.arange(4), 'test': np.arange(4, 6)}\n"
        "    return image_table('stripes', ['a', 'b'], images, labels, splits)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert open_source(Data(name="own_data:Stripes"), "train+test").info.class_counts == (3, 3)
    assert dict(open_dataset(Data(name="own_data:Stripes")).counts()) == {"train": 4, "test": 2}
