"""Labels that name no class are refused when data are opened; a split without labels is said to be unlabelled."""

import dataclasses
import json
import pathlib
import shlex

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from vitzoo.checksums import LIST
from vitzoo.cli import main
from vitzoo.data import show
from vitzoo.data.arrays import from_arrays, image_table
from vitzoo.data.examples import ExampleRows
from vitzoo.data.open import open_source
from vitzoo.data.prepare import Prepared, training_command
from vitzoo.data.processors.image import ImageArrays
from vitzoo.data.settings import Data, Preprocessing
from vitzoo.data.sources import tfds_folders
from vitzoo.data.sources.base import Table
from vitzoo.data.sources.copy_builder import _encoded
from vitzoo.data.sources.tfds_prepare import prepare
from vitzoo.errors import UserError

CLASSES = ("cat", "dog")
IMAGES = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8, 1)
SPLITS = {"train": np.array([0, 1]), "test": np.array([2, 3])}


def table(labels) -> object:
    return image_table("mine", CLASSES, IMAGES, np.array(labels, np.int32), SPLITS)


def arrays(labels) -> object:
    parts = {name: (IMAGES[rows, :, :, 0], np.array(labels)[rows]) for name, rows in SPLITS.items()}
    return from_arrays(parts, CLASSES, "mine")


def texts(labels) -> object:
    return Table(
        "mine", ("text", "label"), SPLITS, np.arange(4, dtype=np.uint64),
        lambda row: {"text": f"text {row}", "label": labels[row]}, lambda row: f"mine example {row}",
        CLASSES, np.array(labels, np.int32),
    )  # fmt: skip


def prepared(folder: pathlib.Path, labels, text: bool = False) -> None:
    """A dataset in TFDS's layout as its own tools write it, of more classes than its description then names."""
    feature = tfds.features.Text() if text else tfds.features.Image(shape=(8, 8, 1))
    key = "text" if text else "image"

    class Mine(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        name = "mine"
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            named = tfds.features.ClassLabel(num_classes=9)
            features = tfds.features.FeaturesDict({key: feature, "label": named})
            return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

        def _split_generators(self, _):
            return {name: self._generate_examples(rows.tolist()) for name, rows in SPLITS.items()}

        def _generate_examples(self, rows):
            for row in rows:
                yield row, {key: f"text {row}" if text else _encoded(IMAGES[row], 1), "label": labels[row]}

    where = prepare(Mine(data_dir=str(folder), file_format="array_record"), 0)
    for name in ("features.json", "label.labels.txt", LIST):  # TFDS's own tools write no list
        (where / name).unlink(missing_ok=True)
    tfds.features.FeaturesDict({key: feature, "label": tfds.features.ClassLabel(names=CLASSES)}).save_config(str(where))


@pytest.mark.parametrize("make", [table, arrays, texts])
@pytest.mark.parametrize(("label", "row"), [(2, 1), (7, 3), (-2, 2), (-1, 0)])
def test_a_label_of_no_class_is_refused_at_opening_with_its_row(make, label, row):
    labels = [0, 1, 0, 1]
    labels[row] = label
    with pytest.raises(UserError) as refused:
        [make(labels).open(split) for split in SPLITS]
    assert str(refused.value).startswith("data.name = mine: ")
    assert f"mine example {row} has the label {label};" in str(refused.value)
    assert "there are 2 classes, 0 to 1" in str(refused.value)


@pytest.mark.parametrize("make", [table, arrays, texts])
def test_a_split_whose_labels_are_all_minus_one_is_unlabelled(make):
    dataset = make([0, 1, -1, -1])
    assert [dataset.open(split).info.unlabelled for split in SPLITS] == [False, True]
    assert dataset.open("test").info.class_counts is None
    with pytest.raises(UserError, match=r"has the label -1; .* a whole split or none of it"):
        dataset.open("train+test")


def several(labels) -> object:
    return image_table("mine", CLASSES, IMAGES, np.array(labels, np.float32), SPLITS)


def texts_of_several(labels) -> object:
    return Table(
        "mine", ("text", "label"), SPLITS, np.arange(4, dtype=np.uint64),
        lambda row: {"text": f"text {row}", "label": labels[row]}, lambda row: f"mine example {row}",
        CLASSES, np.array(labels, np.float32),
    )  # fmt: skip


@pytest.mark.parametrize("make", [several, arrays, texts_of_several])
@pytest.mark.parametrize(
    ("rows", "row", "said"),
    [
        ([[1, 0], [1, -1], [0, 1], [1, 0]], 1, "-1"),
        ([[0, 1], [1, 0], [255, 0], [0, 255]], 2, "255"),
        ([[0, 1], [1, 0], [0, 1], [float("nan"), 0]], 3, "nan"),
        ([[0, 0.5], [1, 0], [0, 1], [0, 0]], 0, "0.5"),
        ([[-1, -1], [1, 0], [0, 1], [0, 0]], 0, "-1"),  # a whole split is unlabelled, or none of it
    ],
)
def test_of_several_labels_each_is_0_or_1(make, rows, row, said):
    with pytest.raises(UserError) as refused:
        [make(rows).open(split) for split in SPLITS]
    assert f"mine example {row} has the label {said}" in str(refused.value)
    assert "wanted is 0 or 1 for each class" in str(refused.value)


@pytest.mark.parametrize("make", [several, arrays, texts_of_several])
def test_several_labels_that_are_all_minus_one_are_none(make):
    dataset = make([[0, 1], [1, 1], [-1, -1], [-1, -1]])
    assert [dataset.open(split).info.unlabelled for split in SPLITS] == [False, True]
    assert dataset.open("test").info.class_counts is None


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (np.zeros(2, int), np.zeros((2, 2), int)),
        (np.zeros(2), np.zeros(2)),
        (np.array(["a", "b"]), np.array(["a", "b"])),
        (np.zeros((2, 2, 1), int), np.zeros((2, 2, 1), int)),
    ],
)
def test_labels_of_another_form_are_refused(train, test):
    with pytest.raises(UserError, match="labels must be class numbers"):
        from_arrays({"train": (IMAGES[:2, :, :, 0], train), "test": (IMAGES[2:, :, :, 0], test)}, CLASSES, "mine")


def test_a_number_that_is_none_is_no_label_of_regression():
    table = dataclasses.replace(texts([0, 1, 0, 1]), classes=None, labels=np.array([1, 2, np.nan, 1], np.float32))
    assert len(table.open("train")) == 2
    with pytest.raises(UserError, match=r"mine example 2 has the label nan; wanted is a finite number"):
        table.open("test")


@pytest.mark.parametrize("make", [table, arrays, texts])
@pytest.mark.parametrize("names", [["caf\u00e9", "cafe\u0301"], ["a", "a"], ["pos", "pos "], [0, 1]])
def test_each_class_has_a_name_of_its_own(make, names, monkeypatch):
    monkeypatch.setitem(globals(), "CLASSES", tuple(names))
    with pytest.raises(UserError, match=r"mine: has one name for the classes 0 \(|mine: names the classes \(0, 1\)"):
        make([0, 1, 0, 1])


@pytest.mark.parametrize("make", [table, arrays, texts])
def test_names_of_classes_are_kept_in_one_spelling(make, monkeypatch):
    marks = set()
    for names in (("caf\u00e9", "pos"), ("cafe\u0301", " pos ")):
        monkeypatch.setitem(globals(), "CLASSES", names)
        info = make([0, 1, 0, 1]).open("train").info
        assert info.classes == ("caf\u00e9", "pos")
        marks.add(info.fingerprint)
    assert len(marks) == 1


OWN_TEXTS = """
import numpy as np
from vitzoo.data.sources.base import Table

def made(field, values, classes=("N", "V")):
    def read(row):
        return {"words": ["Ann", "sat"], "text": "Ann sat", field: values[row]}
    return Table("own", ("words" if field == "tags" else "text", field),
                     {"train": np.array([0, 1]), "test": np.array([2])}, np.arange(3, dtype=np.uint64),
                     read, lambda row: f"own example {row}", classes)

def good(data): return made("tags", [[0, 1], [1, 1], [0, 0]])
def minus(data): return made("tags", [[0, 1], [0, -1], [0, 0]])
def beyond(data): return made("tags", [[0, 1], [0, 1], [0, 9]])
def named(data): return made("tags", [[0, 1], ["N", 1], [0, 0]])
def short(data): return made("tags", [[0, 1], [0, 1], [0]])
def nameless(data): return made("tags", [[0, 1], [0, 1], [0, 1]], None)
def untold(data): return made("tags", [[0, 1], [0, 1], [-1, -1]])
def label(data): return made("label", [0, 1, 5])
"""


@pytest.fixture
def own_texts(tmp_path, monkeypatch):
    (tmp_path / "own_texts_part.py").write_text(OWN_TEXTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("minus", "own example 1 has the tag -1; there are 2 classes, 0 to 1"),
        ("beyond", "own example 2 has the tag 9; there are 2 classes, 0 to 1"),
        ("named", "own example 1 has the tag 'N'; wanted is the number of a class"),
        ("short", "own example 2 has 1 tags of 2 words"),
        ("nameless", "has tags, and names no classes"),
        ("label", "own example 2 has the label 5; there are 2 classes, 0 to 1"),
    ],
)
def test_labels_and_tags_of_ones_own_texts_are_classes(own_texts, capsys, function, said):
    assert main(["data", "check", f"own_texts_part:{function}"]) == 2
    assert said in capsys.readouterr().err


def test_ones_own_texts_are_checked_and_shown(own_texts, capsys):
    assert main(["data", "check", "own_texts_part:good", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["splits"]["train"]["class_counts"] == {"N": 1, "V": 3}
    assert main(["data", "check", "own_texts_part:untold", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["splits"]["test"]["unlabelled"]
    assert main(["data", "show", "own_texts_part:good"]) == 0
    assert "tags: ['N', 'V']" in capsys.readouterr().out


def test_ones_own_texts_are_no_images(own_texts, capsys):
    flags = ["--config.data.name=own_texts_part:good", "--config.total_steps=1", "--dry-run"]
    assert main(["train", "--config", "quickstart", *flags]) == 2
    assert "holds text, where images are needed" in capsys.readouterr().err


@pytest.fixture
def unlabelled(tmp_path, monkeypatch):
    """A dataset of one's own whose test split has no labels, in the current folder."""
    (tmp_path / "unlabelled_part.py").write_text(
        "import numpy as np\nfrom vitzoo.data.arrays import from_arrays\n"
        "def data(data):\n"
        "    images = np.random.default_rng(0).integers(0, 255, (12, 8, 8), np.uint8)\n"
        "    labels = np.arange(12) % 2\n"
        "    return from_arrays({'train': (images, labels), 'validation': (images[:4], labels[:4]),"
        " 'test': (images[:4], -np.ones(4, int))})\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "unlabelled_part:data"


def test_an_unlabelled_split_is_checked(unlabelled, capsys):
    assert main(["data", "check", unlabelled, "--json"]) == 0
    out = capsys.readouterr().out
    assert "unlabelled" in out.splitlines()[3]
    splits = json.loads(out.splitlines()[-1])["splits"]
    assert {name: part["unlabelled"] for name, part in splits.items()} == {
        "train": False, "validation": False, "test": True,
    }  # fmt: skip
    assert splits["test"]["n"] == 4


def test_an_unlabelled_split_is_shown_without_a_class(unlabelled, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(show, "contact_sheet", lambda pictures: shown.extend(pictures) or Image.new("L", (8, 8)))
    assert main(["data", "show", unlabelled, "--split", "test", "--output", str(tmp_path / "x.png")]) == 0
    assert [caption.partition("\n")[0] for _, caption in shown] == ["unlabelled"] * 4
    assert len({caption for _, caption in shown}) == 4  # each names its file


@pytest.mark.parametrize(
    "flags",
    [
        ["--config.data.split=test", "--config.objective.class_weights=balanced"],
        ["--config.data.split=test"],
        ["--config.data.split=test", "--config.data.balance=classes"],
        ["--config.evaluate.test.split=test", "--config.evaluate.test.name=classification"],
    ],
    ids=["weights", "train", "balance", "evaluate"],
)
def test_what_needs_labels_says_that_a_split_has_none(unlabelled, capsys, flags):
    common = ["--config", "quickstart", f"--config.data.name={unlabelled}", "--config.total_steps=1", "--dry-run"]
    assert main(["train", *common, "--config.evaluate.test.split=validation", *flags]) == 2
    line = capsys.readouterr().err
    assert "unlabelled" in line
    assert "unexpected" not in line


@pytest.mark.parametrize("labels", [[0, 1, -1, -1], [0, 1, 1, 5]])
def test_of_tfds_too(tmp_path, labels):
    prepared(tmp_path, labels)
    data = Data(name="mine", dir=str(tmp_path))
    assert not open_source(data, "train").info.unlabelled
    if labels[-1] == 5:
        with pytest.raises(UserError, match=r"test example 1 has the label 5; there are 2 classes, 0 to 1"):
            open_source(data, "test")
        return
    source = open_source(data, "test")
    assert source.info.unlabelled
    assert "test" not in shlex.split(training_command(Prepared("mine", tmp_path), str(tmp_path)))[-2]
    with pytest.raises(UserError, match=r"data.split = test: is unlabelled in mine"):
        ExampleRows(source, data, (ImageArrays(Preprocessing(), (8, 8), 1),))


@pytest.mark.parametrize("labels", [[0, 1, -1, -1], [0, 1, 1, 5]])
def test_of_texts_of_tfds_too(tmp_path, labels):
    prepared(tmp_path, labels, text=True)
    data = Data(name="mine", dir=str(tmp_path))
    if labels[-1] == 5:
        with pytest.raises(UserError, match=r"test example 1 has the label 5; there are 2 classes, 0 to 1"):
            open_source(data, "test")
        return
    assert open_source(data, "test").info.unlabelled


def test_of_a_large_split_some_labels_are_looked_at():
    assert tfds_folders.looked_at(2000).tolist() == list(range(2000))
    some = tfds_folders.looked_at(1_000_000)
    assert (len(some), some[0], some[-1]) == (64, 0, 999_999)
