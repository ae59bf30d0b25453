"""What is read to be predicted or continued: lines, records and standard input; what is refused before any work."""

import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from made_text_run import make_text_run

from vitzoo.cli.entry import main
from vitzoo.data.text.settings import Text, Tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.user_texts import gather_texts, read_texts, refuse_files
from vitzoo.errors import UserError
from vitzoo.inference import predict as predicting
from vitzoo.inference.generator import _Answers, check_prompts
from vitzoo.inference.writers import say_written
from vitzoo.outputs import there

ENDS = "one\x0c\x0b\x1c\u0085\u2028\u2029two\rthree"  # what `splitlines` would cut, and a lone carriage return
HALF = "holds what is no character"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "inputs: there is no text"),
        ([3], "inputs = int: text 1 is neither text nor a record of fields"),
        ({"title": "a"}, "inputs = title: the fields of text 1 are none of: words; first \\+ second; text"),
        ({"words": "a b"}, "text 1: field 'words' must be a list of strings"),
        ({"text": "a", "content": "b"}, "text 1: several fields fit for text: text, content; keep one"),
        ({"premise": "a", "text1": "b", "second": "c"}, "text 1: several fields fit for sentence1: premise, text1"),
        ({"words": ["a"], "tokens": ["b"]}, "text 1: several fields fit for words: words, tokens"),
        ({"text": 5}, "text 1: field 'text' must be text"),
        (["a", "b\udcff"], rf"inputs = 'b\\udcff': text 2 {HALF}"),
        (["a", {"text": "b\ud800"}], f"text 2: field 'text' {HALF}"),
        ({"words": ["a", "\ud800"]}, f"text 1: field 'words' {HALF}"),
    ],
)
def test_inputs_that_are_no_text_are_refused(inputs, message):
    with pytest.raises(UserError, match=message):
        gather_texts(inputs, Text())


@pytest.mark.parametrize(
    ("record", "asked", "fields"),
    [
        ({"text": "a", "body": "b"}, {"text_field": "body"}, {"text": "b"}),
        ({"words": ["a"], "body": "b"}, {"text_field": "body"}, {"text": "b"}),
        ({"words": ["a"], "toks": ["b"]}, {"text_field": "toks", "label_field": "pos"}, {"words": ["b"]}),
        ({"text": "a", "p": "b", "q": "c"}, {"first_field": "p", "second_field": "q"}, {"first": "b", "second": "c"}),
        ({"text": "a"}, {"label_field": "topic", "target_field": "es"}, {"text": "a"}),
    ],
)
def test_fields_are_those_that_the_checkpoint_was_trained_with(record, asked, fields):
    assert gather_texts(record, Text(fields=asked))[0].fields == fields


def test_a_record_without_a_field_of_the_training_is_refused_by_name():
    with pytest.raises(UserError, match=r"inputs = text: text 2 has no field 'body', which data.text_field named in"):
        gather_texts(["a string is a text", {"text": "a"}], Text(fields={"text_field": "body"}))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_files_lines_end_as_they_do_in_training(tmp_path, end):
    (tmp_path / "texts.txt").write_bytes(f"\ufeff{ENDS}{end}{end}last".encode())
    assert read_texts(tmp_path / "texts.txt") == [ENDS, "last"]
    records = [{"text": ENDS.replace(end, " ").replace("\r", " ")}, {"text": "last"}]
    lines = end.join(json.dumps(record, ensure_ascii=False) for record in records)
    (tmp_path / "texts.jsonl").write_bytes(f"\ufeff{lines}{end}".encode())
    assert read_texts(tmp_path / "texts.jsonl") == records


def test_standard_input_is_read_as_lines(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{ENDS}\n\nlast\n".encode())))
    assert read_texts("-") == [ENDS, "last"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}\n\n{", "line 3 is not JSON"),
        (b"[" * 100_000, "line 1 is nested too deeply"),
        (b'{"text": "a", "text": "b"}', "line 1 names the field 'text' twice"),
        (b"\xe9", "can't be read: 'utf-8' codec can't decode"),
        (b"\n \n", "holds no text"),
    ],
)
def test_a_file_that_holds_no_records_is_refused(tmp_path, content, message):
    (tmp_path / "texts.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=f"--input = .*texts.jsonl: {message}"):
        read_texts(tmp_path / "texts.jsonl")


def test_prompts_are_read_as_lines_too(tmp_path, monkeypatch):
    from vitzoo.inference import generate as writing

    given = []
    monkeypatch.setattr(writing, "generate", lambda _, prompts, **__: given.append(prompts) or [])
    (tmp_path / "prompts.txt").write_bytes(f"\ufeff{ENDS}\r\n\n  \n".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb")))
    for file in (str(tmp_path / "prompts.txt"), "-"):
        assert main(["generate", "--checkpoint", "runs/a", "--prompts", file]) == 0
    assert given == [[ENDS, "  "], ["a", "b"]]


@pytest.mark.parametrize(("flag", "value"), [("--prompt", "b\udcff"), ("--stop", "\ud800")])
def test_half_a_character_on_the_command_line_is_refused_before_any_work(flag, value, capsys):
    assert main(["generate", "--checkpoint", "runs/none", "--prompt", "a", flag, value]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"vitzoo: {flag} = {value!a}: {HALF}")
    with pytest.raises(UserError, match="prompt: there is none"):
        check_prompts([])


class Gathered(Exception):
    """Raised once the inputs have been taken, before any weights are read."""


def gathered(*_, **__):
    raise Gathered


@pytest.mark.parametrize("name", ["nosuch.txt", "mails.JSONL", "no/such", "photo.png", "-", "./a.csv"])
def test_what_looks_like_the_name_of_a_file_is_not_taken_for_text(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    make_text_run(tmp_path / "run", "bert", "none", objective="masked_lm")
    texts = ["a text", "and/or so", "word", "see a.txt", "3.14", "etc."]
    monkeypatch.setattr(predicting, "Predictor", gathered)
    refuse_files(texts, typed=True)
    for how in ("values", "texts"):
        with pytest.raises(Gathered):
            predicting.predict("run", [*texts, name], given=how)
    with pytest.raises(UserError, match=f"inputs = {name}: (no such file|--input - .*); --text takes it as text"):
        predicting.predict("run", [*texts, name], given="arguments")


def test_a_file_that_was_there_is_said_to_be_replaced(tmp_path):
    (tmp_path / "old.csv").touch()
    old, new = tmp_path / "old.csv", tmp_path / "new.npz"
    for fields, counts in (
        ({"file": "a.png"}, ("1 rows", "features of 1 image")),
        ({"file": "a.npy"}, ("1 rows", "features of 1 array")),
        ({"text": "a"}, ("1 text", "embed")),
    ):
        out = io.StringIO()
        say_written([{**fields, "error": None}], old, new, out, before=there(old, new, None))
        first, second = out.getvalue().splitlines()
        assert first == f"replaced {old}: {counts[0]}"
        assert second.startswith(f"wrote    {new}: {counts[1]}")


def test_answers_that_are_written_are_told(tmp_path, capsys, monkeypatch):
    from vitzoo.inference import generate as writing

    answer = {"prompt": "a", "text": "b", "tokens": 1, "reason": "end"}
    monkeypatch.setattr(writing, "generate", lambda *_, **__: [answer])
    file = tmp_path / "answers.jsonl"
    flags = ["generate", "--checkpoint", "runs/a", "--prompt", "a", "--output", str(file)]
    assert main(flags) == 0
    file.touch()
    assert main([*flags, "--json"]) == 0
    wrote, replaced, last = capsys.readouterr().out.splitlines()
    assert (wrote, replaced) == (f"wrote    {file}: 1 answer", f"replaced {file}: 1 answer")
    assert json.loads(last)["answers"] == [answer]


def test_pieces_of_words_go_on_from_the_prompt_with_their_space():
    tokenizer = open_tokenizer(Tokenizer(kind="wordpiece", vocabulary_size=60), ["the cat sat on the mat"] * 3)
    info = SimpleNamespace(tokenizer=tokenizer)
    given, ids = tokenizer.encode("the cat"), tokenizer.encode("sat on")
    answers = _Answers(info, ["the cat"], [given], [], None)
    answers.look([ids], np.array([len(ids)]), np.array([len(ids)]))
    assert answers.answers[0].text == " sat on"
    alone = _Answers(info, ["the cat"], [], [], None)  # of an encoder-decoder, an answer of its own
    alone.look([ids], np.array([len(ids)]), np.array([len(ids)]))
    assert alone.answers[0].text == "sat on"


@pytest.mark.parametrize(("paired", "head"), [(True, "classes"), (False, "classes"), (True, "number")])
def test_a_model_of_pairs_takes_no_single_text_and_one_of_texts_no_pair(paired, head, tmp_path, capsys):
    objective = {"classes": "sequence_classification", "number": "regression"}[head]
    fields = {"head": head, "num_classes": 2} if head == "classes" else {"head": head}
    make_text_run(tmp_path / "run", "bert", "stdlib", text={"paired": paired}, objective=objective, **fields)
    (tmp_path / "in.jsonl").write_text('{"first": "a cat", "second": "a dog"}\n' * (not paired) + '{"text": "a"}\n')
    assert main(["predict", "--checkpoint", f"{tmp_path}/run", "--input", f"{tmp_path}/in.jsonl"]) == 2
    said = capsys.readouterr().err
    if paired:
        assert "inputs = a: text 1 is a single text, and the model was trained on pairs: --input FILE.jsonl" in said
    else:
        assert "inputs = a cat | a dog: text 1 is a pair, and the model was trained on single texts" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    ["predict --checkpoint {run} --input -", "generate --checkpoint {run} --prompts -"],
    ids=lambda line: line[:8],
)
@pytest.mark.parametrize("closed", ["as Python began", "later"])
def test_a_closed_standard_input_is_refused_by_the_flag_that_asks_for_it(line, closed, tmp_path, monkeypatch, capsys):
    make_text_run(tmp_path / "run", "bert", "none", objective="masked_lm")
    stream = io.TextIOWrapper(io.BytesIO(b""))
    stream.close()
    monkeypatch.setattr(sys, "stdin", stream if closed == "later" else None)  # of `<&-` Python makes None
    assert main(line.format(run=tmp_path / "run").split()) == 2
    flag = line.split()[-2]
    assert capsys.readouterr().err.endswith(
        f"{flag} = -: can't be read: standard input is closed; give it texts, or name a file\n"
    )
