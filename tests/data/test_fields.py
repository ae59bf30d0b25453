"""CSV files and JSON lines of any fields: images, texts, labels and numbers side by side, read alike."""

import csv
import dataclasses
import json
import os

import numpy as np
import pytest
from made_pictures import picture

from vitzoo.cli import main
from vitzoo.data.examples import ExampleRows
from vitzoo.data.open import open_dataset, open_source
from vitzoo.data.processors.image import ImageArrays, ImageProcessor
from vitzoo.data.settings import Data, Preprocessing
from vitzoo.errors import UserError


@dataclasses.dataclass
class Settings:
    """Those of a model."""

    image_size: int = 8
    channels: int = 3
    num_classes: int = 3


READERS = ("csv", "jsonl")


@pytest.fixture
def write(tmp_path):
    """Writes records beside the pictures 0.png .. 9.png, and gives the data section for them."""
    for number in range(10):
        picture(tmp_path / "pictures" / f"{number}.png", color=(20 * number, 0, 0))

    def written(reader: str, records: list[dict], **settings) -> Data:
        file = tmp_path / f"records.{reader}"
        if reader == "jsonl":
            file.write_text("".join(json.dumps(record) + "\n" for record in records))
        else:
            with open(file, "w", newline="") as opened:
                table = csv.DictWriter(opened, list(records[0]))
                table.writeheader()
                table.writerows(records)
        return Data(name=f"{reader}:{file}", **{"validation_fraction": 0.0, **settings})

    return written


def images(*more: dict) -> list[dict]:
    return [{"file": f"pictures/{number}.png", **fields} for number, fields in enumerate(more)]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("records", "settings", "fields", "last"),
    [
        (images({"text": "a"}, {"text": "b"}), {}, {"image": "image", "text": "text"}, {"text": "b"}),
        (images({"label": "x"}, {"label": "y"}), {}, {"image": "image", "label": "label"}, {"label": 1}),
        (
            images({"text": "a", "label": "x"}, {"text": "b", "label": "y"}),
            {},
            {"image": "image", "text": "text", "label": "label"},
            {"text": "b", "label": 1},
        ),
        (
            images({"label": 1}, {"label": 2.5}),
            {"regression": True},
            {"image": "image", "label": "number"},
            {"label": 2.5},
        ),
        (
            [{"pic": "pictures/0.png", "said": "a", "kind": "x"}, {"pic": "pictures/1.png", "said": "b", "kind": "y"}],
            {"image_field": "pic", "text_field": "said", "label_field": "kind"},
            {"image": "image", "text": "text", "label": "label"},
            {"text": "b", "label": 1},
        ),
        (
            [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}],
            {},
            {"text": "text", "label": "label"},
            {"text": "b", "label": 1},
        ),
        (
            [{"text": "a", "label": 1}, {"text": "b", "label": 2.5}],
            {"regression": True},
            {"text": "text", "label": "number"},
            {"text": "b", "label": 2.5},
        ),
        (
            [{"sentence1": "a", "sentence2": "b", "label": "x"}, {"sentence1": "c", "sentence2": "d", "label": "y"}],
            {},
            {"first": "text", "second": "text", "label": "label"},
            {"first": "c", "second": "d", "label": 1},
        ),
        (
            [{"en": "a", "es": "b"}, {"en": "c", "es": "d"}],
            {"source_field": "en", "target_field": "es"},
            {"source": "text", "target": "text"},
            {"source": "c", "target": "d"},
        ),
        ([{"path": "a.py", "content": "x"}, {"path": "b.py", "content": "y"}], {}, {"text": "text"}, {"text": "y"}),
        (
            images({"a": "x", "b": "y"}, {"a": "z", "b": "w"}),
            {"template": "{a}-{b}", "image_field": "file"},
            {"image": "image", "text": "text"},
            {"text": "z-w"},
        ),
        (
            images({"a": "x", "b": "y"}, {"a": "z", "b": "w"}),
            {"source_field": "a", "target_field": "b"},
            {"source": "text", "target": "text"},
            {"source": "z", "target": "w"},
        ),
        ([{"a": "x", "b": "y"}, {"a": "z", "b": "w"}], {"template": "{a}-{b}"}, {"text": "text"}, {"text": "z-w"}),
    ],
)
def test_both_hold_the_same_fields(write, reader, records, settings, fields, last):
    source = open_source(write(reader, records, **settings))
    assert source.fields == fields
    example = source[1]
    assert list(example) == list(fields)
    if "image" in fields:
        assert example.pop("image").startswith(b"\x89PNG")
    assert example == last
    assert source.info.n == 2


@pytest.mark.parametrize("reader", READERS)
def test_images_keep_all_their_checks(write, tmp_path, reader):
    good = images(*({"label": label} for label in ("cafe\u0301", "b", "caf\u00e9")))
    source = open_source(write(reader, good))
    assert source.info.classes == ("b", "caf\u00e9")  # one spelling
    assert source.info.files[2] == str(tmp_path / "pictures" / "2.png")
    gone = [*good, {"file": "pictures/none.png", "label": "b"}]
    with pytest.raises(UserError, match=r"1 of 4 files can't be read: .*none.png \(no such file\)"):
        open_source(write(reader, gone))
    assert open_source(write(reader, gone, bad_files="skip")).info.n == 3
    os.mkfifo(tmp_path / "pictures" / "p.png")
    data = write(reader, [*good, {"file": "pictures/p.png", "label": "b"}])
    with pytest.raises(UserError, match=r"p.png \(is a pipe, not a file\)"):
        open_source(data)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("field", ["label", "text"])
def test_equal_images_are_never_torn_apart(write, tmp_path, reader, field):
    for number in range(5, 10):
        (tmp_path / "pictures" / f"{number}.png").write_bytes((tmp_path / "pictures" / "4.png").read_bytes())
    data = write(reader, images(*({field: "ab"[number % 2]} for number in range(10))), validation_fraction=0.3)
    parts = [open_source(data, split) for split in ("train", "validation")]
    contents = [{source[index]["image"] for index in range(len(source))} for source in parts]
    assert not contents[0] & contents[1]
    assert any("are the same as others" in note for note in parts[0].info.notes)


@pytest.mark.parametrize("reader", READERS)
def test_equal_texts_are_never_torn_apart(write, reader):
    records = [{"text": f"text {min(number, 4)}", "label": "ab"[number % 2]} for number in range(10)]
    data = write(reader, records, validation_fraction=0.3)
    parts = [open_source(data, split) for split in ("train", "validation")]
    assert not {one["text"] for one in parts[0]} & {one["text"] for one in parts[1]}
    assert any("is there under different labels" in note for note in parts[0].info.notes)


def test_splits_of_a_table_of_texts_are_stated_by_a_column(write):
    rows = [("a", "train"), ("b", "val"), ("c", "TEST"), ("d", "mine"), ("e", "train")]
    records = [{"text": text, "label": "x", "split": split} for text, split in rows]
    dataset = open_dataset(write("csv", records))
    assert dict(dataset.counts()) == {"train": 2, "validation": 1, "test": 1, "mine": 1}
    assert dataset.open("mine")[0]["text"] == "d"
    assert dataset.open("mine").where(0).endswith("records.csv row 5")
    records[1]["label"] = "y"
    with pytest.raises(UserError, match=r"records.csv row 3: train has no label 'y'"):
        open_source(write("csv", records))


def test_a_folder_of_json_lines_states_splits_of_images(write, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for split, numbers in (("train", (0, 1)), ("val", (2,))):
        lines = [json.dumps({"image": f"../pictures/{n}.png", "labels": ["x", "yz"[n % 2]]}) for n in numbers]
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    dataset = open_dataset(Data(name=f"jsonl:{folder}"))
    assert dict(dataset.counts()) == {"train": 2, "validation": 1}
    source = dataset.open("train")
    assert (source.fields["label"], source.info.classes) == ("labels", ("x", "y", "z"))
    assert source.labels().tolist() == [[1, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    ("reader", "records", "settings", "message"),
    [
        ("jsonl", images({"note": "a"}), {}, "images in file, and neither label nor text; name one: "),
        ("csv", images({"note": "a"}), {}, "data.label_field: name a column, none of the usual names is there"),
        (
            "jsonl",
            [{"file": "0.png", "image": "1.png", "text": "a"}],
            {},
            "data.image_field: name a field, several fields fit",
        ),
        (
            "csv",
            [{"file": "0.png", "image": "1.png", "text": "a"}],
            {"text_field": ""},
            "data.image_field: name a colu",
        ),
        ("jsonl", images({"text": "a"}), {"image_field": "pic"}, "data.image_field = pic: no such field in"),
        ("csv", images({"text": "a"}), {"image_field": "pic"}, "data.image_field = pic: no such column"),
        *[
            (one, images({"text": "a"}), {"image_field": "file", "template": template}, f"data.template = {named}")
            for one in READERS
            for template, named in (("{caption}", "caption: no such"), ("none", "none: names fields in braces"))
        ],
        *[
            (
                one,
                images({"text": "a"}),
                {"image_field": "file", "source_field": "text"},
                "data.source_field = text: has no",
            )
            for one in READERS
        ],
        ("jsonl", images({"text": "a"}), {"label_field": "kind"}, "data.label_field = kind: no such field in"),
        ("jsonl", [{"image": 5, "text": "a"}], {"image_field": "image"}, "jsonl:1: field 'image' must be text"),
        ("jsonl", images({"label": "a"}, {"label": None}), {}, "records.jsonl:2: the label null is neither text"),
        (
            "jsonl",
            images({"label": 1}, {"label": "x"}),
            {"regression": True},
            'jsonl:2: the label "x" is no finite num',
        ),
        ("csv", images({"label": 1}, {"label": "x"}), {"regression": True}, 'row 3: the label "x" is no finite number'),
        ("csv", [{"text": "a", "label": "x"}], {"regression": True}, 'row 2: the label "x" is no finite number'),
        ("jsonl", [*images({"text": "a"}), {"text": "b"}], {}, "jsonl:2 has no field 'file', which earlier lines have"),
    ],
)
def test_what_is_wrong_with_records_is_said(write, reader, records, settings, message):
    with pytest.raises(UserError, match=message):
        open_source(write(reader, records, **settings))


@pytest.mark.parametrize("reader", READERS)
def test_who_needs_images_or_texts_is_told_that_there_are_none(write, reader):
    texts, pictures = [{"text": "a", "label": "x"}] * 2, images({"label": "x"}, {"label": "y"})
    with pytest.raises(UserError, match="holds text, where images are needed"):
        open_source(write(reader, texts), needs="image")
    with pytest.raises(UserError, match="holds images, and the objective takes text"):
        open_source(write(reader, pictures), needs="text")
    both = write(reader, images({"text": "a"}, {"text": "b"}))
    assert open_source(both, needs="image").fields == open_source(both, needs="text").fields


def test_images_are_rows_with_numbers_or_without_labels(write):
    how = (ImageArrays(Preprocessing(), (8, 8), 3),)
    numbers = write("jsonl", images({"label": 1}, {"label": 2.5}), regression=True)
    assert ExampleRows(open_source(numbers), numbers, how).eval_row(1)["label"] == np.float32(2.5)
    captions = write("csv", images({"text": "a"}, {"text": "b"}))
    row = ExampleRows(open_source(captions), captions, how).eval_row(1)
    assert (row["image"].shape, "label" in row) == ((8, 8, 3), False)
    for data, message in ((numbers, "has numbers as labels"), (captions, "has no labels")):
        source = open_source(data)
        with pytest.raises(UserError, match=f"{message}.*, and the objective tells classes apart"):
            ImageProcessor(Preprocessing()).complete(Settings(), source)


@pytest.mark.parametrize("reader", READERS)
def test_the_data_commands_know_what_records_hold(write, tmp_path, monkeypatch, capsys, reader):
    monkeypatch.chdir(tmp_path)
    both = write(reader, images({"text": "a red one"}, {"text": "b"}))
    assert main(["data", "check", both.name, "--config.data.validation_fraction=0", "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert found["fields"] == ["image", "text"]
    assert found["splits"]["train"]["largest"]
    assert "every image can be read" in out
    assert "fields: image, text\n" in out
    assert main(["data", "show", both.name, "--config.data.validation_fraction=0"]) == 0
    assert (tmp_path / "examples.png").exists()
    capsys.readouterr()
    texts = write(reader, [{"text": "a red one", "label": "x"}] * 2)
    assert main(["data", "check", texts.name, "--config.data.label_field=label"]) == 0
    assert "every example can be read" in capsys.readouterr().out
    assert main(["data", "show", texts.name, "--split=all"]) == 0
    assert "label: x" in capsys.readouterr().out


@pytest.mark.parametrize("reader", READERS)
def test_images_with_texts_are_prepared_and_read_back(write, tmp_path, reader, capsys):
    data = write(reader, images({"text": "a red one", "label": "x"}, {"text": "\u00e9", "label": "y"}))
    flags = ["--dir", str(tmp_path / "tfds"), "--config.data.validation_fraction=0"]
    assert main(["data", "prepare", data.name, *flags]) == 0
    capsys.readouterr()
    before, after = open_source(data), open_source(Data(name="records", dir=str(tmp_path / "tfds")))
    assert after.fields == before.fields
    assert [after[index] for index in range(2)] == [before[index] for index in range(2)]
