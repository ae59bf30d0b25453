"""What `vitzoo data` does with text: counting it, showing it, and making a tokenizer of it."""

import json

import numpy as np
import pytest

from vitzoo.cli import main
from vitzoo.data.check import check
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.text.examples import all_text
from vitzoo.data.text.prepare import prepare_tokenizer
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import UserError

RECORDS = [{"text": word * 3, "label": label} for word, label in [("héllo ", "a"), ("b", "b"), ("cc", "a"), ("", "b")]]


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "some.jsonl"
    good = [json.dumps(record) for record in RECORDS]
    file.write_text("\n".join([*good[:2], "nope", *good[2:], '{"text": "lacks"}', "[1]"]) + "\n")
    return file


def test_a_check_counts_what_can_be_read_and_names_every_line_that_cannot(lines, capsys):
    found = check(f"jsonl:{lines}", validation_fraction=0.0)
    counted = found["splits"]["train"]
    assert counted == {
        "n": 4,
        "class_counts": {"a": 2, "b": 2},
        "unlabelled": False,
        "bytes": 3 * (7 + 1 + 2),
        "shortest": 0,
        "median": 4.5,
        "longest": 18,
        "empty": 1,
    }
    assert [line.partition(" ")[0] for line in found["unreadable"]] == [f"some.jsonl:{n}" for n in (3, 6, 7)]
    assert main(["data", "check", f"jsonl:{lines}"]) == 1
    assert "some.jsonl:6 has no field 'label'" in capsys.readouterr().out
    assert main(["data", "check", f"jsonl:{lines}", "--bad-files", "skip"]) == 0


def test_lines_that_cannot_be_read_stop_or_are_left_out_and_counted(lines):
    with pytest.raises(UserError, match=r"some\.jsonl:3 is not JSON"):
        open_source(Data(name=f"jsonl:{lines}"))
    source = open_source(Data(name=f"jsonl:{lines}", bad_files="skip", split="all"))
    read = {source.where(i): source[i]["text"] for i in range(len(source))}
    lasting = dict(zip((1, 2, 4, 5), RECORDS, strict=True))
    assert read == {f"{lines}:{number}": record["text"] for number, record in lasting.items()}
    assert any("3 records left out" in note for note in source.info.notes)


def test_texts_are_shown_with_their_labels_and_where_they_stand(lines, capsys):
    flags = ["--bad-files", "skip", "--split", "all", "--count", "2"]
    assert main(["data", "show", f"jsonl:{lines}", *flags]) == 0
    assert f"{lines}:1\n  text: héllo héllo héllo \n  label: a\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_prepared_tokenizer_is_the_one_that_training_would_make(tmp_path, kind):
    file = tmp_path / "book.txt"
    file.write_text("\n".join(f"the cat number {i} sat on the mat number {i * 7}" for i in range(60)))
    how = {"kind": kind, "vocabulary_size": 300 if kind == "bpe" else 60}
    made = prepare_tokenizer(f"text:{file}", tmp_path / "made", how)
    source = open_source(Data(name=f"text:{file}"))
    trained = open_tokenizer(Tokenizer(**how), all_text(source))
    read = open_tokenizer(Tokenizer(kind="file", file=str(tmp_path / "made")))
    text = source[0]["text"]
    np.testing.assert_array_equal(read.encode(text), trained.encode(text))
    assert read.specials == trained.specials
    assert made.tokens == len(trained.encode(text))
    assert f"--config.inputs.tokens.tokenizer.file={tmp_path / 'made'}" in made.command
    with pytest.raises(UserError, match="not empty"):
        prepare_tokenizer(f"text:{file}", tmp_path / "made", how)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["prepare", "stdlib"], "--output: names the tokenizer's folder"),
        (
            ["prepare", "stdlib", "--output", "x", "--config.inputs.tokens.tokenizer.kind=bytes"],
            "bytes: needs no preparing",
        ),
        (["prepare", "stdlib", "--output", "x", "--shards", "2"], "--shards = 2: is for images"),
        (
            ["check", "stdlib", "--config.inputs.tokens.tokenizer.kind=bpe"],
            "--config.inputs.tokens.tokenizer: has no effect",
        ),
        (["show", "stdlib", "--output", "x.png"], "output = x.png: is for pictures"),
        (["prepare", "digits", "--output", "x"], "--output = x: is for a tokenizer"),
    ],
)
def test_flags_that_do_not_fit_are_refused_in_a_line(flags, message, capsys):
    assert main(["data", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
