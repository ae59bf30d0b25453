"""Prepared data are read as they were written, or refused in one line that names the file and the remedy."""

import errno
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
from made_pictures import picture

from vitzoo.checksums import LIST
from vitzoo.cli import main
from vitzoo.data.open import open_source
from vitzoo.data.prepare import prepare
from vitzoo.data.settings import Data

CLASSES = ("ant", "bee", "cat")


def pictures(folder: pathlib.Path, classes=CLASSES, count: int = 20) -> pathlib.Path:
    """A folder of images of several classes, each of another colour."""
    for label, name in enumerate(classes):
        for number in range(count):
            picture(folder / name / f"{number:02}.png", (8, 8), (60 * label, 5 * number, 90))
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> pathlib.Path:
    """A data folder that holds `insects`, in 2 shards a split."""
    root = tmp_path_factory.mktemp("written")
    prepare(f"folder:{pictures(root / 'insects')}", dir=str(root / "data"), shards=2)
    return root / "data"


def shard(number: int) -> str:
    return f"insects-train.array_record-0000{number}-of-00002"


def halved(file: pathlib.Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zeroed(file: pathlib.Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def flipped(file: pathlib.Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)


def emptied(file: pathlib.Path) -> None:
    file.write_bytes(b"")


def reversed_lines(file: pathlib.Path) -> None:
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))


def copied(file: pathlib.Path) -> None:
    """Another shard of the same length lies in its place."""
    shutil.copyfile(file.with_name(shard(0)), file)


def swapped_words(file: pathlib.Path) -> None:
    file.write_text('["nothing", "of", "this"]')


NAMES = "label.labels.txt"
DAMAGE = [(NAMES, how) for how in (emptied, os.remove, reversed_lines, halved, zeroed, flipped)]
DAMAGE += [(file, how) for file in ("dataset_info.json", "features.json") for how in (emptied, os.remove, halved)]
DAMAGE += [(file, how) for file in ("dataset_info.json", "features.json", LIST) for how in (flipped, swapped_words)]
DAMAGE += [(shard(1), how) for how in (emptied, os.remove, halved, zeroed, flipped, copied)]


def refused(capsys, folder: pathlib.Path, file: str, *command: str) -> None:
    assert main(["data", *command, "--dir", str(folder)]) == 2
    said = capsys.readouterr().err.strip()
    assert file in said
    assert "vitzoo data prepare" in said
    assert "unexpected" not in said
    assert len(said.splitlines()) == 1


def case(one) -> str:
    return getattr(one, "__name__", str(one))


@pytest.mark.parametrize(("file", "damage"), DAMAGE, ids=case)
def test_damage_is_one_line_with_file_and_remedy(written, tmp_path, capsys, file, damage):
    folder = shutil.copytree(written, tmp_path / "data")
    damage(folder / "insects" / "1.0.0" / file)
    if (file, damage) == (LIST, flipped):  # maybe in what it says of another file
        file = "insects/1.0.0/"
    refused(capsys, folder, file, "check", "insects")
    refused(capsys, folder, file, "show", "insects", "--output", str(tmp_path / "sheet.png"))
    assert not (tmp_path / "sheet.png").exists()


# what TFDS wrote has no list: its own numbers say what is missing, and its reader what is damaged
WITHOUT_LIST = [entry for entry in DAMAGE if entry[1] not in (reversed_lines, copied, flipped) and entry[0] != LIST]
WITHOUT_LIST = [entry for entry in WITHOUT_LIST if entry != ("features.json", os.remove)]


@pytest.mark.parametrize(("file", "damage"), WITHOUT_LIST, ids=case)
def test_damage_of_data_without_a_list_is_one_line_too(written, tmp_path, capsys, file, damage):
    folder = shutil.copytree(written, tmp_path / "data")
    (folder / "insects" / "1.0.0" / LIST).unlink()
    damage(folder / "insects" / "1.0.0" / file)
    if (file, damage) == ("dataset_info.json", os.remove):  # that is how TFDS says that it isn't complete
        file = "insects"
    refused(capsys, folder, file, "check", "insects")


def test_names_missing_that_the_catalogue_has_are_missed(written, tmp_path, capsys):
    """TFDS's beans names its 3 classes, of which `features.json` keeps only the number."""
    folder = shutil.copytree(written / "insects" / "1.0.0", tmp_path / "data" / "beans" / "0.1.0")
    (folder / LIST).unlink()
    made = {"name": "beans", "version": "0.1.0", "moduleName": "tensorflow_datasets.image_classification.beans"}
    info = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps(info | made))
    for file in folder.glob("insects-*"):
        file.rename(file.with_name(file.name.replace("insects", "beans")))
    assert main(["data", "check", "beans", "--dir", str(tmp_path / "data")]) == 0
    (folder / NAMES).unlink()
    capsys.readouterr()
    refused(capsys, tmp_path / "data", NAMES, "check", "beans")


def test_a_large_shard_is_read_through_by_check_alone(written, tmp_path, capsys, monkeypatch):
    folder = shutil.copytree(written, tmp_path / "data")
    copied(folder / "insects" / "1.0.0" / shard(1))
    monkeypatch.setattr("vitzoo.data.sources.prepared_files.LARGE", 4096)
    assert len(open_source(Data(name="insects", dir=str(folder)), "train")) == 54
    refused(capsys, folder, shard(1), "check", "insects")


def test_damaged_data_are_not_said_to_be_prepared(tmp_path, capsys):
    folder = prepare("digits", dir=str(tmp_path)).folder
    halved(folder / NAMES)
    refused(capsys, tmp_path, NAMES, "prepare", "digits")


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\r\nb", os.fsdecode(b"a\xff")])
def test_names_that_are_not_read_back_are_refused(tmp_path, capsys, name):
    pictures(tmp_path / "letters", ("a", name, "c"))
    assert main(["data", "prepare", f"folder:{tmp_path}/letters", "--dir", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().err.strip()
    assert ascii(name) in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["\nz", "z\r", "z\x0b", "y\x85z", "y\u2028z"])
def test_names_that_are_prepared_are_read_back_equal(tmp_path, name):
    source = f"folder:{pictures(tmp_path / 'letters', ('a', name, 'c'))}"
    prepare(source, dir=str(tmp_path / "data"))
    found, wanted = (open_source(data, "train") for data in (Data("letters", dir=str(tmp_path / "data")), Data(source)))
    assert found.info.classes == wanted.info.classes
    np.testing.assert_array_equal(found.labels(), wanted.labels())


def test_names_in_cells_that_are_not_read_back_are_refused(tmp_path, capsys):
    pictures(tmp_path, ("x",), 6)
    rows = "".join(f'x/0{number}.png,"{label}"\n' for number, label in enumerate(["a", "b\nc", "d", "a", "b\nc", "d"]))
    (tmp_path / "letters.csv").write_text(f"file,label\n{rows}")
    assert main(["data", "prepare", f"csv:{tmp_path}/letters.csv", "--dir", str(tmp_path / "data")]) == 2
    assert r"b\nc" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "name", ["digits", "vtab", "mnist_5k", "sums", "csv", "folder", "text", "cifar10", "MNIST", "glue"]
)
def test_a_name_that_other_data_have_is_refused_before_work(tmp_path, capsys, name):
    pictures(tmp_path / name)
    assert main(["data", "prepare", f"folder:{tmp_path / name}", "--dir", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().err.strip()
    assert f"`{name.lower()}" in said
    assert "rename the folder" in said
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("shards", [7, 64, 1000])
def test_a_split_has_no_more_shards_than_examples(tmp_path, capsys, shards):
    source = f"folder:{pictures(tmp_path / 'insects')}"
    assert main(["data", "prepare", source, "--shards", str(shards), "--dir", str(tmp_path / "data")]) == 0
    said = capsys.readouterr().out
    for split, count in {"train": 54, "validation": 6}.items():  # a tenth of each class is held out
        files = list((tmp_path / "data").rglob(f"insects-{split}.array_record*"))
        assert len(files) == min(shards, count)
        assert (f"split {split} has {count} examples, and as many shards" in said) == (count < shards)
        found, wanted = (
            open_source(data, split) for data in (Data("insects", dir=str(tmp_path / "data")), Data(source))
        )
        np.testing.assert_array_equal(found.labels(), wanted.labels())
        assert found.info.classes == wanted.info.classes == CLASSES


OWN = """
import numpy as np
import tensorflow_datasets as tfds
from PIL import Image
from vitzoo.data.arrays import image_table

IMAGES, LABELS = np.zeros((6, 4, 4, 3), np.uint8), np.arange(6, dtype=np.int32) % 2

def made(classes, test=4):
    return image_table("made", classes, IMAGES, LABELS, {"train": np.arange(test), "test": np.arange(test, 6)})

def Lines(data):
    return made(["a\\nb", "b"])

def Digits(data):
    return made(["a", "b"])

def HalfEmpty(data):
    return made(["a", "b"], 6)

class Built(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    name, classes = "built", ("a", "b")
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"image": tfds.features.Image(shape=(4, 4, 3))}
        features["label"] = tfds.features.ClassLabel(names=self.classes)
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, _):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for row in range(6):
            yield row, {"image": Image.fromarray(IMAGES[row]), "label": int(LABELS[row])}

class BuiltLines(Built, skip_registration=True):
    name, classes = "built_lines", ("a", "b\\rc")

class BuiltSums(Built, skip_registration=True):
    name = "sums"

class BuiltCifar(Built, skip_registration=True):
    name = "cifar10"
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> str:
    (tmp_path / "prepared_own.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "prepared_own"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Lines", r"'a\nb' of class 0 holds a line break"),
        ("BuiltLines", r"'b\rc' of class 1 holds a line break"),
        ("Digits", "`digits` names a dataset of vitzoo's own; rename the class"),
        ("BuiltSums", "`sums` names a dataset of vitzoo's own; rename the class"),
        ("BuiltCifar", "`cifar10` names a dataset of TFDS's catalogue; rename the class"),
    ],
)
def test_of_ones_own_classes_too(own, tmp_path, capsys, name, said):
    assert main(["data", "prepare", f"{own}:{name}", "--dir", str(tmp_path / "data")]) == 2
    line = capsys.readouterr().err
    assert f"data.name = {own}:{name}: " in line
    assert said in line
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("name", "read"), [("HalfEmpty", "halfempty"), ("Built", "prepared_own:Built")])
def test_ones_own_classes_have_no_more_shards_than_examples(own, tmp_path, capsys, name, read):
    assert main(["data", "prepare", f"{own}:{name}", "--shards", "64", "--dir", str(tmp_path / "data")]) == 0
    assert "split train has 6 examples, and as many shards" in capsys.readouterr().out
    assert len(list((tmp_path / "data").rglob("*.array_record*"))) == 6
    assert main(["data", "check", read, "--dir", str(tmp_path / "data")]) == 0


def test_what_is_not_there_is_not_to_be_renamed(tmp_path, capsys):
    assert main(["data", "prepare", f"folder:{tmp_path}/digits", "--dir", str(tmp_path / "data")]) == 2
    assert "rename" not in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.ESTALE])
def test_files_that_only_cannot_be_opened_are_not_to_be_removed(written, tmp_path, capsys, monkeypatch, number):
    def refuse(file):
        raise OSError(number, os.strerror(number))

    folder = shutil.copytree(written, tmp_path / "data")
    monkeypatch.setattr("vitzoo.checksums.crc32", refuse)
    assert main(["data", "check", "insects", "--dir", str(folder)]) == 2
    said = capsys.readouterr().err
    assert f"dataset_info.json can't be read ({os.strerror(number)})" in said
    assert "remove" not in said
