"""Which fields of a record are read: those asked for, or none; and which labels name classes."""

import json

import pytest

from vitzoo.data.check import check
from vitzoo.data.open import open_source
from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.settings import Data
from vitzoo.data.text.examples import as_pairs
from vitzoo.data.text.labelled import LabelledRows
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.errors import UserError

ALL = {"validation_fraction": 0.0}


def write(folder, records, name="data.jsonl"):
    """A file of records (or lines as they stand), as `data.name`."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (folder / name).write_text("\n".join(lines) + "\n")
    return f"jsonl:{folder / name}"


def read(folder, records, **settings):
    return open_source(Data(name=write(folder, records), **ALL, **settings))


def labelled(folder, labels, **settings):
    return read(folder, [{"text": "a", "label": label} for label in labels], **settings)


PAIR = {"prompt": "P", "completion": "C", "foo": "Q", "bar": "R"}
TAGGED = {"words": ["a"], "tags": ["X"], "tok": ["b", "c"], "pos": ["Y", "Z"], "body": "long"}
CHOICE = {"question": "q", "choices": ["u", "v"], "label": 1, "text": "x", "right": "0"}


@pytest.mark.parametrize(
    ("record", "asked", "expected"),
    [
        (PAIR, {"source_field": "foo", "target_field": "bar"}, {"source": "Q", "target": "R"}),
        (PAIR, {"source_field": "completion", "target_field": "prompt"}, {"source": "C", "target": "P"}),
        (PAIR, {"source_field": "prompt"}, {"prompt": "P", "completion": "C"}),
        (TAGGED, {"text_field": "tok", "label_field": "pos"}, {"words": ["b", "c"], "tags": [0, 1]}),
        (TAGGED, {"text_field": "body"}, {"text": "long"}),
        ({"toks": ["b"], "pos": ["Y"]}, {"text_field": "toks", "label_field": "pos"}, {"words": ["b"], "tags": [0]}),
        ({"toks": ["b"], "tags": ["Y"]}, {"text_field": "toks"}, {"words": ["b"], "tags": [0]}),
        ({"talk": ["b"]}, {"text_field": "talk"}, {"turns": [{"role": "user", "text": "b"}]}),
        ({"messages": ["hi"], "summary": "s"}, {"text_field": "summary"}, {"text": "s"}),
        ({"sentence1": "a", "sentence2": "b", "label": 1, "t": "x"}, {"text_field": "t"}, {"text": "x", "label": 0}),
        (CHOICE, {"text_field": "text", "label_field": "label"}, {"text": "x", "label": 0}),
        (CHOICE, {"label_field": "right"}, {"question": "q", "choices": ["u", "v"], "answer": 0}),
    ],
)
def test_a_field_that_is_asked_for_is_read_whatever_else_is_there(tmp_path, record, asked, expected):
    assert read(tmp_path, [record], **asked)[0] == expected


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"source_field": "foo"},
            r"data.source_field = foo: .* has the fields prompt, .*, and no form of data uses this",
        ),
        ({"text_field": "foo", "first_field": "bar"}, r"data.text_field = foo: .* uses this and first_field: messages"),
        ({"label_field": "none"}, "data.label_field = none: no such field in .*; there are: prompt, completion, foo"),
    ],
)
def test_a_field_that_is_asked_for_in_vain_is_refused_by_name(tmp_path, asked, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, [PAIR], **asked)


def test_a_field_that_is_asked_for_and_of_the_wrong_type_is_named(tmp_path):
    with pytest.raises(UserError, match=r"data.jsonl:1: field 'body' must be text"):
        read(tmp_path, [{"body": 5, "tags": ["X"]}], text_field="body")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 1.0, 2], ("1", "2")),
        ([True, False, True], ("false", "true")),
        (["b", "a", "10", "9"], ("10", "9", "a", "b")),
        (["10", "9"], ("9", "10")),
        ([10, 9, -1], ("-1", "9", "10")),
    ],
)
def test_labels_that_say_the_same_are_one_class(tmp_path, labels, classes):
    source = labelled(tmp_path, labels)
    assert source.info.classes == classes
    assert [source[index]["label"] for index in range(len(labels))] == source.info.labels().tolist()


BAD_LABELS = [
    (["a", ""], r"data.jsonl:2: the label \"\" is empty"),
    (["a", None], r"data.jsonl:2: the label null is neither text nor a whole number"),
    (["a", ["b"]], r"data.jsonl:2: the label \[\"b\"\] is neither"),
    (["a", {"b": 1}], r"data.jsonl:2: the label {\"b\": 1} is neither"),
    (["a", float("nan")], r"data.jsonl:2: the label NaN is neither"),
    ([1, 0.5], r"data.jsonl:2: the label 0.5 is neither text nor a whole number \(numbers to predict: data.regression"),
    (["a", True], r"data.jsonl:2: the label true is a boolean, and an earlier one text; all are text, all numbers or"),
    ([False, 1], r"data.jsonl:2: the label 1 is a number, and an earlier one a boolean; all are text, all numbers"),
    (["a", 1], r"data.jsonl:2: the label 1 is a number, and an earlier one text; all are text, all numbers or all bo"),
    ([1, "1"], r'data.jsonl:2: the label "1" is text, and an earlier one a number; all are text, all numbers or all'),
]


@pytest.mark.parametrize(("labels", "message"), BAD_LABELS)
def test_labels_of_no_class_are_refused_where_they_are_asked_for_or_needed(tmp_path, labels, message):
    with pytest.raises(UserError, match=message):
        labelled(tmp_path, labels, label_field="label")
    source = labelled(tmp_path, labels)
    assert source.fields == {"text": "text"}
    assert source.info.notes[0].startswith("labels aren't used: data.jsonl:2: the label")
    with pytest.raises(UserError, match=message):
        LabelledRows(source, ByteTokenizer(masking=True), Text())
    with pytest.raises(UserError, match=message):
        as_pairs(source)
    with pytest.raises(UserError, match=message):
        TextProcessor(Text(), "labelled", 0).model_fields(source)


def test_labels_of_no_class_that_are_asked_for_can_be_left_out(tmp_path):
    source = labelled(tmp_path, ["a", None, "b"], label_field="label", bad_files="skip")
    assert (len(source), source.info.classes) == (2, ("a", "b"))
    assert source.info.notes[0] == "1 records left out, can't be read"


def test_a_check_of_data_tells_labels_of_no_class(tmp_path):
    found = check(write(tmp_path, [{"text": "a", "category": ["x"]}, {"text": "b", "category": []}]))
    assert found["unreadable"] == []
    assert "labels aren't used: data.jsonl:1" in found["notes"][0]


@pytest.mark.parametrize("tag", [None, ["x"], 0.5, {}])
def test_tags_of_no_class_are_refused(tmp_path, tag):
    with pytest.raises(UserError, match=r"data.jsonl:2: the label .* is neither text nor a whole number"):
        read(tmp_path, [{"words": ["a"], "tags": ["X"]}, {"words": ["a"], "tags": [tag]}])


def test_a_first_text_without_words_is_one_like_any_other(tmp_path):
    nothing = {"words": [], "tags": []}
    source = read(tmp_path, [nothing, {"words": ["a"], "tags": [1]}])
    assert (source.info.classes, source[0]) == (("1",), nothing)
    with pytest.raises(UserError, match="no word has a tag"):
        read(tmp_path, [nothing])
    with pytest.raises(UserError, match=r"data.regression = True: the tags of .* are classes, not numbers"):
        read(tmp_path, [nothing], regression=True)


@pytest.mark.parametrize(
    "label", ["NaN", "Infinity", "-Infinity", "true", '"nan"', '"2.5"', "null", "[1]", "1" + "0" * 400]
)
def test_a_number_to_predict_is_a_finite_number(tmp_path, label):
    lines = ['{"text": "a", "label": 2.5}', f'{{"text": "a", "label": {label}}}']
    with pytest.raises(
        UserError, match=r"data.jsonl:2: the label .* is no finite number, which data.regression asks for"
    ):
        read(tmp_path, lines, regression=True)


@pytest.mark.parametrize("answer", ["Infinity", "NaN", "1.7", "true", "-1", "2", '" 1 "', '"v"', "[0]", "null"])
def test_an_answer_is_the_index_of_a_choice(tmp_path, answer):
    lines = [f'{{"question": "q", "choices": ["u", "v"], "answer": {one}}}' for one in ("1", "1.0", '"1"', answer)]
    with pytest.raises(UserError, match=r"data.jsonl:4: the answer must be the index of a choice"):
        read(tmp_path, lines)
    assert [read(tmp_path, lines[:3])[index]["answer"] for index in range(3)] == [1, 1, 1]


HALF = "holds what is no character"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, "data.jsonl:2 is nested too deeply"),
        ('{"text": "a", "more": ' + "[" * 100_000, "data.jsonl:2 is nested too deeply"),
        ('{"text": "a", "label": 1, "text": "b"}', "data.jsonl:2 names the field 'text' twice"),
        ('{"text": "a", "label": 1, "more": {"b": 1, "b": 2}}', "data.jsonl:2 names the field 'b' twice"),
        ('{"text": "a \\ud800 b", "label": 1}', f"data.jsonl:2: field 'text' {HALF}"),
        ('{"text": "a", "label": "\\udfff"}', f"data.jsonl:2: field 'label' {HALF}"),
    ],
)
def test_a_line_that_is_no_record_of_text_is_named(tmp_path, line, message):
    good = '{"text": "a \\ud83d\\ude00 b", "label": 1}'
    with pytest.raises(UserError, match=message):
        read(tmp_path, [good, line])
    assert len(read(tmp_path, [good, line], bad_files="skip")) == 1


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"words": ["a", "\ud800"], "tags": [0, 1]}, "words"),
        ({"words": ["a"], "tags": ["\ud800"]}, "tags"),
        ({"turns": ["a", "\ud800"]}, "turns"),
        ({"turns": [{"role": "\ud800", "content": "b"}]}, "turns"),
        ({"question": "a", "answers": ["\ud800"]}, "answers"),
        ({"source": "a", "target": "\ud800"}, "target"),
    ],
)
def test_half_a_character_is_refused_in_every_kind_of_field(tmp_path, record, field):
    with pytest.raises(UserError, match=f"data.jsonl:1: field '{field}' {HALF}"):
        read(tmp_path, [record])


def test_files_that_are_folders_or_gone_or_of_one_split_are_refused_in_one_line(tmp_path):
    (tmp_path / "train.jsonl").mkdir()
    with pytest.raises(UserError, match=r"train.jsonl can't be read: Is a directory"):
        open_source(Data(name=f"jsonl:{tmp_path}"), "train")
    (tmp_path / "train.jsonl").rmdir()
    (tmp_path / "train.jsonl").symlink_to(tmp_path / "none")
    with pytest.raises(UserError, match=r"train.jsonl can't be read: No such file"):
        open_source(Data(name=f"jsonl:{tmp_path}"), "train")
    for name in ("val.jsonl", "validation.jsonl"):
        write(tmp_path, [{"text": "a"}], name)
    with pytest.raises(UserError, match=r"val.jsonl and validation.jsonl are both validation"):
        open_source(Data(name=f"jsonl:{tmp_path}"), "train")


def test_two_names_of_a_split_are_refused_of_text_files_too(tmp_path):
    for name in ("train.txt", "val.txt", "validation.txt"):
        (tmp_path / name).write_text("a")
    with pytest.raises(UserError, match=r"val.txt and validation.txt are both validation; leave one of them"):
        open_source(Data(name=f"text:{tmp_path}"), "train")
    (tmp_path / "val.txt").unlink()
    assert len(open_source(Data(name=f"text:{tmp_path}"), "validation")) == 1


@pytest.mark.parametrize("name", ["folder:photos", "digits", "digits/file_order"])
def test_data_of_images_are_named_as_such(name):
    with pytest.raises(UserError, match=f"data.name = {name}: holds images, and the objective takes text"):
        open_source(Data(name=name), needs="text")


@pytest.mark.parametrize("name", ["text:", "jsonl:"])
def test_a_name_without_a_file_is_refused(name):
    with pytest.raises(UserError, match=f"data.name = {name}: names no file or folder"):
        open_source(Data(name=name), "train")


def test_a_field_whose_name_is_half_a_character_is_left_out_by_an_escaped_name(tmp_path, capsys):
    source = read(tmp_path, [{"\ud83d": "a"}, {"text": "b"}], bad_files="skip")
    assert source[0] == {"text": "b"}
    assert r"has the fields \ud83d, which are none of" in capsys.readouterr().err
