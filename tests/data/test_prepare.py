"""Checking data, looking at it, and writing it once as ArrayRecord."""

import pathlib
import shlex

import numpy as np
import pytest
from made_pictures import picture
from PIL import Image

from vitzoo.data.arrays import image_table
from vitzoo.data.check import check
from vitzoo.data.datasets import mnist
from vitzoo.data.images import decode
from vitzoo.data.open import open_dataset, open_source
from vitzoo.data.prepare import prepare, training_command
from vitzoo.data.settings import Data
from vitzoo.data.show import show
from vitzoo.errors import UserError


def test_a_check_counts_classes_and_lists_once_what_cannot_be_read(photos, capsys):
    (photos / "cat" / "half.jpg").write_bytes(b"\xff\xd8\xff")
    (photos / "cat" / "notes.txt").write_text("no image")
    (photos / "bird").mkdir()
    found = check(f"folder:{photos}", validation_fraction=0.0)
    assert found["classes"] == ["cat", "dog"]
    assert found["notes"] == ["ignored 1 file that is no image: cat/notes.txt"]
    bird, half = found["unreadable"]
    assert bird == f"{photos}/bird (no image in it)"
    assert half.startswith(f"{photos}/cat/half.jpg (")
    train = found["splits"]["train"]
    assert train["class_counts"] == {"cat": 10, "dog": 20}
    assert (train["n"], train["smallest"], train["largest"]) == (30, [12, 10], [12, 29])
    assert capsys.readouterr().err == ""


def test_a_check_reads_every_split_of_a_prepared_dataset_or_the_one_asked_for():
    assert {split: part["n"] for split, part in check("digits")["splits"].items()} == {"train": 1437, "test": 360}
    assert {split: part["n"] for split, part in check("digits", split="test[:5]")["splits"].items()} == {"test[:5]": 5}


def test_a_check_of_what_is_not_prepared_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(UserError, match=rf"looked in {tmp_path}.*vitzoo data prepare cifar10 --dir {tmp_path}$"):
        check("cifar10", dir=str(tmp_path))


def test_a_path_without_its_kind_is_answered_with_it(photos, tmp_path, monkeypatch):
    (tmp_path / "a table.csv").write_text("file,label\n")
    monkeypatch.chdir(tmp_path)
    for name, kind in (("photos", "folder"), ("./photos", "folder"), ("a table.csv", "csv")):
        with pytest.raises(UserError, match=f"write {kind}:{name}$"):
            open_source(Data(name=name))
        with pytest.raises(UserError, match=f"write {kind}:{name}$"):
            prepare(name)


def test_a_sheet_shows_examples_with_their_labels(photos, tmp_path):
    path = show(f"folder:{photos}", str(tmp_path / "sheet.png"), count=9)
    with Image.open(path) as sheet:
        assert sheet.size == (3 * 102 + 6, 3 * 130 + 6)  # a line for the label, and one for the file
        assert sheet.getpixel((50, 50))[0] >= 200  # the first cat


def test_a_sheet_that_cannot_be_written_is_refused(photos, tmp_path):
    with pytest.raises(UserError, match=r"output = .*doesn't exist"):
        show(f"folder:{photos}", str(tmp_path / "none" / "sheet.png"))
    with pytest.raises(UserError, match=r"output = .*must end in .png or .jpg"):
        show(f"folder:{photos}", str(tmp_path / "sheet.unknown"))


def test_preparing_says_nothing_of_its_own_and_keeps_the_names_of_files(photos, tmp_path, capsys):
    prepared = prepare(f"folder:{photos}", dir=str(tmp_path / "new"))
    assert "".join(capsys.readouterr()) == ""
    source = open_source(Data(name=prepared.name, dir=str(tmp_path / "new")), "validation")
    files = [pathlib.Path(file) for file in open_source(Data(name=f"folder:{photos}"), "validation").info.files]
    assert list(source.info.files) == [file.relative_to(photos).as_posix() for file in files]
    assert source.where(0) == f"photos/1.0.0 validation example 0, {source.info.files[0]}"


def test_images_in_memory_are_prepared_where_asked_and_read_from_there(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 1), np.uint8)
    splits = {"train": np.arange(4), "test": np.arange(4, 6)}
    table = image_table("mnist_5k", ["0", "1"], images, np.arange(6, dtype=np.int32) % 2, splits)
    monkeypatch.setattr(mnist, "_table_5k", lambda: table)
    prepared = prepare("mnist_5k", dir=str(tmp_path))
    assert prepared.folder == tmp_path / "mnist_5k" / "1.0.0"
    monkeypatch.setattr(mnist, "_table_5k", None)
    test = open_source(Data(name="mnist_5k", dir=str(tmp_path)), "test")
    assert (test.info.classes, test.info.image_shape, test.info.files) == (("0", "1"), (5, 4), None)
    assert test.labels().tolist() == [0, 1]
    np.testing.assert_array_equal(decode(test[1]["image"], 1)[..., 0], images[5, ..., 0])
    assert prepare("mnist_5k", dir=str(tmp_path)) == prepared


def test_a_builder_of_ours_is_prepared_where_asked_though_it_is_prepared_elsewhere(tmp_path):
    open_dataset(Data(name="digits"))
    assert prepare("digits", dir=str(tmp_path)).folder == tmp_path / "digits" / "stratified" / "1.0.0"


def settings(command: str) -> dict[str, str]:
    return dict(word.removeprefix("--config.").split("=", 1) for word in shlex.split(command) if "=" in word)


def test_the_command_that_trains_on_prepared_data_fits_their_splits_and_labels(photos, tmp_path):
    where = str(tmp_path / "a folder")
    asked = {"init_from": "RUN", "data.name": "photos", "data.dir": where}
    assert settings(training_command(prepare(f"folder:{photos}", dir=where), where)) == asked
    for number in range(4):
        picture(tmp_path / f"{number}.png")
    (tmp_path / "tags.csv").write_text("file,labels\n0.png,a|b\n1.png,\n2.png,b\n3.png,a\n")
    tags = prepare(f"csv:{tmp_path}/tags.csv", dir=where, validation_fraction=0.0)
    parts = {"data.split": "train[:90%]", "evaluate.val.split": "train[90%:]", "objective.loss": "sigmoid"}
    assert settings(training_command(tags, where)) == asked | {"data.name": "tags"} | parts
    assert settings(training_command(prepare("digits"))) == {
        "init_from": "RUN",
        "data.name": "digits",
        "evaluate.val.split": "test",
    }


def test_text_is_not_prepared(tmp_path):
    with pytest.raises(UserError, match="holds text, where images are needed"):
        prepare(f"text:{tmp_path}")
