"""Where text comes from: files, JSON lines, the standard library, TFDS; splits that hold every text once."""

import json
import re

import numpy as np
import pytest
from sent import sent

from vitzoo.cli import main
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.text.examples import all_text
from vitzoo.errors import UserError

LINE = "line {:03} of the text\n"


def read(name, split="train", **settings):
    return open_source(Data(name=name, **settings), split)


def contents(source, field="text"):
    return [source[index][field] for index in range(len(source))]


def test_the_end_of_a_single_text_is_validation_cut_at_a_lines_end(tmp_path):
    whole = "".join(LINE.format(number) for number in range(100))
    (tmp_path / "book.txt").write_text(whole)
    name = f"text:{tmp_path / 'book.txt'}"
    train, validation = contents(read(name)), contents(read(name, "validation"))
    assert train[0] + validation[0] == whole
    assert train[0].endswith("\n")
    assert train[0].count("\n") == 90
    assert "from byte 1,890 of 2,100 on (data.validation_fraction)" in read(name).info.notes[0]


LONG = "words of a line " * 6000  # 96,000 bytes
SHORT = "a line of the text\n" * 100  # 1,900


@pytest.mark.parametrize(
    ("text", "fraction", "at_line_end"),
    [
        (SHORT + LONG + "\n" + SHORT * 2, 0.1, True),  # 3.8 % after the nearest end, 98 % after the one before
        (SHORT * 50 + LONG + "\n" + SHORT, 0.1, False),  # 51 % or 0.98 %
        (LONG + "\n" + SHORT[:19], 0.1, False),  # 0.02 % after the only end
        (SHORT[:19] + LONG, 0.1, False),
        (SHORT + LONG, 0.5, False),
        ("é" * 40_000 + "\n" + "é" * 4_000, 0.1, True),
        (SHORT * 3, 0.3, True),
    ],
)
def test_long_lines_leave_validation_about_the_share_asked_for(text, fraction, at_line_end, tmp_path):
    (tmp_path / "book.txt").write_text(text)
    train, validation = (
        contents(read(f"text:{tmp_path / 'book.txt'}", split, validation_fraction=fraction))[0]
        for split in ("train", "validation")
    )
    assert train + validation == text
    share = len(validation.encode()) / len(text.encode())
    assert fraction / 10 <= share <= fraction + (1 - fraction) / 4
    assert train.endswith("\n") == at_line_end


def test_a_text_of_one_line_is_cut_between_characters(tmp_path):
    (tmp_path / "line.txt").write_text("é" * 99)
    parts = [contents(read(f"text:{tmp_path / 'line.txt'}", split))[0] for split in ("train", "validation")]
    assert "".join(parts) == "é" * 99
    assert len(parts[1]) == 10


def test_several_texts_are_split_by_a_fixed_permutation(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text(f"text {number}")
    train, validation = read(f"text:{tmp_path}"), read(f"text:{tmp_path}", "validation")
    assert sorted(contents(train) + contents(validation)) == sorted(f"text {number}" for number in range(20))
    assert len(validation) == 2
    assert contents(validation) == contents(read(f"text:{tmp_path}", "validation"))
    assert "2 of 20 examples, by a fixed permutation" in train.info.notes[0]


def test_files_and_folders_named_after_splits_are_splits(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.txt").write_text("a")
    (tmp_path / "val.txt").write_text("b")
    (tmp_path / "test.txt").write_text("c")
    assert [contents(read(f"text:{tmp_path}", split)) for split in ("train", "validation", "test")] == [
        ["a"],
        ["b"],
        ["c"],
    ]
    assert contents(read(f"text:{tmp_path}", "train+test")) == ["a", "c"]


def laid(root, *files):
    """A folder of files, each of a text that names it."""
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        said = f"{file}\n" if file.endswith(".txt") else json.dumps({"text": file}) + "\n"
        (root / file).write_text(said)
    return root


@pytest.mark.parametrize(
    ("files", "splits", "left_out"),
    [
        (["train/a.txt", "holdout/b.txt"], {"train": ["train/a.txt"]}, "left out holdout, beside train"),
        (["train.txt", "notes.txt"], {"train": ["train.txt"]}, "left out notes.txt, beside train.txt"),
        (
            ["train/a.txt", "val.txt", "a.txt", "old/c.txt"],
            {"train": ["train/a.txt"], "validation": ["val.txt"]},
            "left out a.txt, old, beside train, val.txt",
        ),
        (["val/a.txt", "test/b.txt"], {"validation": ["val/a.txt"], "test": ["test/b.txt"]}, ""),
        (["train.txt"], {"train": ["train.txt"]}, ""),
        (["Train/train.txt", "dev/dev.txt"], {"train": ["Train/train.txt"], "validation": ["dev/dev.txt"]}, ""),
    ],
)
def test_texts_of_a_split_are_that_splits_whatever_stands_beside_them(tmp_path, capsys, files, splits, left_out):
    name = f"text:{laid(tmp_path, *files)}"
    assert main(["data", "check", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {split: part["n"] for split, part in found["splits"].items()} == {one: len(splits[one]) for one in splits}
    for split, texts in splits.items():
        assert [text.strip() for text in contents(read(name, split))] == texts
    assert [note for note in found["notes"] if "left out" in note] == [
        note for note in found["notes"] if left_out and left_out in note
    ]
    assert bool(left_out) == any("left out" in note for note in found["notes"])
    if "train" not in splits:
        with pytest.raises(UserError, match="no split 'train'; there are: validation, test"):
            read(name)


@pytest.mark.parametrize(
    ("kind", "files", "named"),
    [
        ("text", ["a.txt", "b.txt", "test.txt"], "holds test.txt, called as splits are, and no train beside a.txt, b"),
        ("text", ["val/a.txt", "notes.txt"], "holds val, called as splits are, and no train beside notes.txt"),
        ("text", ["corpus/train/a.txt", "corpus/test/b.txt"], "corpus/test, corpus/train: called as splits are"),
        ("text", ["en/train.txt", "de/test.txt"], "de/test.txt, en/train.txt: called as splits are"),
        ("text", ["train/a.txt", "train/test/b.txt"], "train/test: called as splits are"),
        ("text", ["train.txt", "train/a.txt"], "train and train.txt are both train"),
        ("jsonl", ["train.jsonl", "notes.jsonl"], "notes.jsonl: no split's name"),
        ("jsonl", ["a.jsonl", "b.jsonl", "test.jsonl"], "a.jsonl, b.jsonl: no split's name"),
        ("jsonl", ["train.jsonl", "test/a.jsonl"], "test: no file of JSON lines"),
        ("jsonl", ["train.jsonl", "train.JSON"], "train.JSON and train.jsonl are both train"),
        ("jsonl", ["train.jsonl", "test.jsonl.gz"], "test.jsonl.gz: no file of JSON lines"),
    ],
)
def test_texts_whose_split_is_unclear_are_refused_by_name(tmp_path, capsys, kind, files, named):
    assert main(["data", "check", f"{kind}:{laid(tmp_path, *files)}"]) == 2
    assert named in capsys.readouterr().err


def test_a_file_named_alone_is_cut_whatever_it_is_called(tmp_path):
    (laid(tmp_path) / "test.txt").write_text("".join(LINE.format(number) for number in range(10)))
    assert contents(read(f"text:{tmp_path / 'test.txt'}", "validation")) == [LINE.format(9)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("file", ["one\ntwo\n\n\n three\r\n\r\nfour\n"]),
        ("line", ["one", "two", " three", "four"]),
        ("paragraph", ["one\ntwo", "three", "four\n"]),
    ],
)
def test_what_a_document_is_can_be_chosen(tmp_path, document, expected):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\n\n\n three\r\n\r\nfour\n")
    source = read(f"text:{tmp_path / 'a.txt'}", document=document, validation_fraction=0.0)
    assert [text.strip() for text in contents(source)] == [text.strip() for text in expected]


def test_files_that_are_not_utf8_stop_or_are_named_and_left_out(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "good.txt").write_text("good")
    with pytest.raises(UserError, match=r"not UTF-8 text: bad.txt \(data.bad_files=skip leaves them out\)"):
        read(f"text:{tmp_path}")
    source = read(f"text:{tmp_path}", bad_files="skip", validation_fraction=0.0)
    assert contents(source) == ["good"]
    assert source.info.notes == ("1 files left out, not UTF-8 text",)


def test_a_fingerprint_follows_the_text_not_its_place(tmp_path):
    marks = []
    for folder, text in (("a", "one two"), ("b", "one two"), ("c", "one twO")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(text)
        marks.append(read(f"text:{tmp_path / folder}", validation_fraction=0.0).info.fingerprint)
    assert marks[0] == marks[1] != marks[2]


def test_a_source_travels_to_a_worker(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a", "label": "p"}\n{"text": "b", "label": "q"}\n')
    source = read(f"jsonl:{tmp_path / 'x.jsonl'}", validation_fraction=0.0)
    assert contents(sent(source)) == ["a", "b"]


def test_the_standard_library_is_python_without_tests_and_packages():
    source = read("stdlib")
    assert len(source) > 300
    assert all(not {"site-packages", "test"} & set(source.where(i).split("/")) for i in range(len(source)))
    assert any("def " in source[index]["text"] for index in range(5))


def write(tmp_path, records, name="data.jsonl"):
    (tmp_path / name).write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return f"jsonl:{tmp_path / name}"


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ({"text": "a"}, {"text": "a"}),
        ({"prompt": "a", "completion": "b"}, {"prompt": "a", "completion": "b"}),
        ({"instruction": "a", "response": "b"}, {"prompt": "a", "completion": "b"}),
        ({"input": "a", "output": "b", "more": 1}, {"source": "a", "target": "b"}),
        ({"source": "a", "target": "b"}, {"source": "a", "target": "b"}),
        ({"text": "a", "label": "x"}, {"text": "a", "label": 0}),
        ({"premise": "a", "hypothesis": "b", "label": 3}, {"first": "a", "second": "b", "label": 0}),
        ({"words": ["a", "b"], "tags": ["N", "V"]}, {"words": ["a", "b"], "tags": [0, 1]}),
        ({"ctx": "a", "endings": ["b", "c"], "label": 1}, {"question": "a", "choices": ["b", "c"], "answer": 1}),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            {"turns": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]},
        ),
        ({"turns": ["a", "b"]}, {"turns": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]}),
    ],
)
def test_the_usual_fields_of_json_lines_are_recognised(tmp_path, record, fields):
    source = read(write(tmp_path, [record]), validation_fraction=0.0)
    assert tuple(source.fields) == tuple(fields)
    assert source[0] == fields


@pytest.mark.parametrize(
    ("record", "fitting", "setting"),
    [
        ({"text": "a", "label": "x", "class": "y"}, "label: label, class", "label_field"),
        ({"text": "a", "category": "x", "target": "y"}, "label: category, target", "label_field"),
        ({"text": "a", "content": "b"}, "text: text, content", "text_field"),
        ({"sentence": "a", "document": "b", "label": 1}, "text: sentence, document", "text_field"),
        ({"premise": "a", "sentence1": "b", "question2": "c"}, "sentence1: sentence1, premise", "first_field"),
        ({"input": "a", "src": "b", "output": "c"}, "source: input, src", "source_field"),
        ({"words": ["a"], "ner_tags": ["N"], "pos_tags": ["V"]}, "tags: ner_tags, pos_tags", "label_field"),
        ({"prompt": "a", "instruction": "b", "completion": "c"}, "prompt: prompt, instruction", ""),
        ({"question": "a", "context": "b", "choices": ["c", "d"], "answer": 1}, "question: question, context", ""),
    ],
)  # fmt: skip
def test_several_fields_that_fit_are_refused_as_several_columns_are(tmp_path, record, fitting, setting):
    *_, one, other = re.split("[:,] ", fitting)
    plain = {field: value for field, value in record.items() if field != other}
    for records in ([record], [plain, record]):  # the first, and one further down
        name = write(tmp_path, records)
        with pytest.raises(UserError, match=f"several fields fit for {fitting}; keep one") as refusal:
            read(name, validation_fraction=0.0)
        assert refusal.value.field == "data.name"
    if setting:
        for wanted in (one, other):
            name = write(tmp_path, [record])
            source = read(name, **{setting: wanted}, validation_fraction=0.0)
            told = source.info.classes if setting == "label_field" else source[0].values()
            value = record[wanted]
            assert str(value[0] if isinstance(value, list) else value) in told


def test_fields_can_be_named(tmp_path):
    name = write(tmp_path, [{"en": "a", "es": "b"}])
    assert read(name, source_field="en", target_field="es", validation_fraction=0.0)[0] == {
        "source": "a",
        "target": "b",
    }
    with pytest.raises(UserError, match=r"data.source_field = xx: no such field in .*; there are: en, es"):
        read(name, source_field="xx")
    with pytest.raises(
        UserError,
        match=r"has the fields en, es, which are none of: messages; .*: --config.data.text_field=en",
    ):
        read(name)


def test_classes_are_the_labels_of_train_in_order(tmp_path):
    name = write(tmp_path, [{"text": str(label), "label": label} for label in (10, 9, 2, 9)], "train.jsonl")
    write(tmp_path, [{"text": "x", "label": 9}], "test.jsonl")
    train, test = read(f"jsonl:{tmp_path}"), read(f"jsonl:{tmp_path}", "test")
    assert name
    assert train.info.classes == test.info.classes == ("2", "9", "10")
    assert contents(train, "label") == [2, 1, 0, 1]
    assert test[0]["label"] == 1
    assert train.info.class_counts == (1, 2, 1)


def test_a_slice_that_cuts_classes_off_says_so(tmp_path):
    name = write(tmp_path, [{"text": str(number), "label": "ab"[number // 50]} for number in range(60)], "train.jsonl")
    (note,) = set(read(name, "train[:40]").info.notes) - set(read(name).info.notes)
    assert note.startswith("warning: train[:40] has no example of 1 of the 2 classes (b)")
    assert read(name, "train[:50]").info.notes == read(name).info.notes


def test_a_label_that_train_lacks_is_refused(tmp_path):
    write(tmp_path, [{"text": "a", "label": "p"}], "train.jsonl")
    write(tmp_path, [{"text": "a", "label": "q"}], "test.jsonl")
    with pytest.raises(UserError, match=r"test.jsonl:1: train has no label 'q'"):
        read(f"jsonl:{tmp_path}")


def test_numbers_stay_numbers_for_regression(tmp_path):
    source = read(
        write(tmp_path, [{"text": "a", "label": 2.5}]), regression=True, validation_fraction=0.0
    )  # fmt: skip
    assert source[0]["label"] == 2.5
    assert source.info.classes is None
    assert source.info.labels().dtype == np.float32


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"text": "a"}\n{"text": }\n', "data.jsonl:2 is not JSON"),
        ('{"text": "a"}\n\n{"more": 1}\n', "data.jsonl:3 has no field 'text'"),
        ('{"text": 3}\n', "data.jsonl:1: field 'text' must be text"),
        ("[1]\n", "data.jsonl:1 is not an object"),
        ('{"words": ["a"], "tags": []}\n', "words and tags differ in number"),
        ('{"question": "q", "choices": ["a"], "answer": 1}\n', "the answer must be the index of a choice"),
        ("\n", "holds no records"),
    ],
)
def test_a_bad_line_is_named(tmp_path, lines, message):
    (tmp_path / "data.jsonl").write_text(lines)
    with pytest.raises(UserError, match=message):
        read(f"jsonl:{tmp_path / 'data.jsonl'}")


def test_every_string_of_a_source_serves_to_train_a_tokenizer(tmp_path):
    source = read(write(tmp_path, [{"source": "a", "target": "b"}, {"source": "c", "target": "d"}]), "all")
    assert sorted(all_text(source)) == ["a", "b", "c", "d"]
    turns = read(write(tmp_path, [{"turns": ["a", "b"]}]), validation_fraction=0.0)
    assert list(all_text(turns)) == ["a", "b"]


class Own:
    """A user's own dataset."""

    def __init__(self, data):
        self.length = data.batch_size

    def counts(self):
        return {"train": 1}

    def open(self, split):
        from made_texts import texts

        return texts(f"{split} {self.length}")


def test_a_users_own_class_is_opened_by_its_name():
    assert contents(read("test_text_sources:Own", batch_size=7)) == ["train 7"]


def test_what_is_missing_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        read(f"text:{tmp_path / 'none'}")
    with pytest.raises(UserError, match=r"holds no file \*.txt; data.files names others"):
        read(f"text:{tmp_path}")
    with pytest.raises(UserError, match="not prepared; looked in"):
        read("imdb_reviews")


def test_catalogue_text_sets_are_known_before_they_are_prepared(tmp_path):
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=3):
        source = read("imdb_reviews", dir=str(tmp_path))
        assert (len(source), tuple(source.fields), source.info.classes) == (3, ("text", "label"), ("neg", "pos"))
        assert isinstance(source[0]["text"], str)
        pairs = read("wmt14_translate/de-en", source_field="en", target_field="de", dir=str(tmp_path))
        assert (len(pairs), tuple(pairs.fields)) == (3, ("source", "target"))


def test_a_prepared_tfds_text_set_is_read(tmp_path):
    from made_reviews import Reviews

    Reviews(data_dir=tmp_path, file_format="array_record").download_and_prepare()
    source = read("reviews", dir=str(tmp_path))
    assert source.fields == {"text": "text", "label": "label"}
    assert source[1] == {"text": "été 1", "label": 1}
    assert source.info.classes == ("bad", "good")
    assert source.info.labels().tolist() == [0, 1, 0, 1]
    assert read("reviews", "train[1:3]", dir=str(tmp_path)).ids.tolist() == [1, 2]
    with pytest.raises(UserError, match=r"no split 'test'"):
        read("reviews", "test", dir=str(tmp_path))
