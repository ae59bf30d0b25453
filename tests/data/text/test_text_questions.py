"""Examples as questions, solved ones before them, and the rows in which choices and last words are scored."""

import json

import numpy as np
import pytest
from made_texts import MadeSource, texts

from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.text.continuations import Choices, LastWords, split_last
from vitzoo.data.text.examples import as_pairs
from vitzoo.data.text.prompts import Prompts
from vitzoo.data.text.questions import AskedSource, Questions
from vitzoo.data.text.scored_bytes import scored_bytes
from vitzoo.data.text.settings import Text, Tokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import UserError

BYTES = ByteTokenizer()
TEXT = Text(length=64, source_length=64)
TRAIN = MadeSource([{"source": f"{number} + 1", "target": f"{number + 1}"} for number in range(30)])
FORMAT = {"question_format": "Q: {question}\nA:", "answer_format": " {answer}"}
CHOICES = MadeSource(
    [
        {"question": "sky", "choices": ["blue", "green"], "answer": 0},
        {"question": "grass", "choices": ["no", "green", "a long one"], "answer": 1},
    ]
)


def asking(source=TRAIN, prefix="", train=TRAIN, **how):
    return AskedSource(source, lambda: train, Questions(**how), prefix)


def decoded(row, key="tokens"):
    return BYTES.decode(row[key], skip_specials=True)


@pytest.mark.parametrize(
    ("example", "classes", "question", "references"),
    [
        ({"source": "a", "target": "b"}, None, "a", ("b",)),
        ({"prompt": "a", "completion": "b"}, None, "a", ("b",)),
        ({"question": "a", "answers": ["b", "c"]}, None, "a", ("b", "c")),
        ({"passage": "p", "question": "a", "answers": ["b"]}, None, "question: a context: p", ("b",)),
        ({"question": "a", "choices": ["b", "c"], "answer": 1}, None, "a", ("c",)),
        ({"text": "a", "label": 1}, ("no", "yes"), "a", ("yes",)),
        ({"first": "a", "second": "b", "label": 0}, ("no", "yes"), "first: a second: b", ("no",)),
    ],
)
def test_what_an_example_asks_follows_from_its_fields(example, classes, question, references):
    source = asking(MadeSource([example], classes))
    assert (source[0]["question"], source[0]["references"]) == (question, references)
    pair = as_pairs(MadeSource([example], classes))[0]
    assert pair == {"source": question, "target": references[0]}


def test_json_lines_may_hold_questions_and_answers(tmp_path):
    lines = [{"id": 1, "question": "who?", "answer": "I"}, {"id": 2, "question": "what?", "answer": ["a", "b"]}]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = asking(open_source(Data(name=f"jsonl:{tmp_path}/q.jsonl"), "all"))
    assert [source[index]["references"] for index in range(2)] == [("I",), ("a", "b")]
    squad = {"context": "Ann sat.", "question": "who?", "answers": {"text": ["Ann"], "answer_start": [0]}}
    (tmp_path / "s.jsonl").write_text(json.dumps(squad) + "\n")
    assert asking(open_source(Data(name=f"jsonl:{tmp_path}/s.jsonl"), "all"))[0]["question"].endswith(
        "context: Ann sat."
    )
    (tmp_path / "q.jsonl").write_text('{"question": "who?", "answer": []}\n')
    with pytest.raises(UserError, match=r"q.jsonl:1: field 'answer' must be text, or a list of texts"):
        open_source(Data(name=f"jsonl:{tmp_path}/q.jsonl"), "all")


def test_shots_stand_before_the_question_in_the_form_asked_for():
    source = asking(shots=2, prefix="Add.\n", **FORMAT)
    two, one, none = source.prompts(4)
    start, first, second, last = two.replace("Add.\n", "Add.\n\n\n").split("\n\n")[0:1] + two[5:].split("\n\n")
    assert start == "Add."
    for shot in (first, second):
        number = int(shot.split()[1])
        assert shot == f"Q: {number} + 1\nA: {number + 1}"
    assert first != second
    assert last == "Q: 4 + 1\nA:"
    assert one == f"Add.\n{second}\n\n{last}"
    assert none == f"Add.\n{last}"


def test_shots_are_drawn_by_the_seed_for_each_question_and_never_ask_it():
    drawn = [asking(shots=3, seed=seed)._drawn(index) for seed in (0, 0, 1) for index in range(30)]
    assert drawn[:30] == drawn[30:60]
    assert drawn[:30] != drawn[60:]
    assert len({tuple(one) for one in drawn[:30]}) > 25
    assert all(len(set(one)) == 3 and index not in one for index, one in enumerate(drawn[:30]))
    with pytest.raises(UserError, match="shots = 30: train has only 29 other examples"):
        asking(shots=30).prompts(0)


def test_shots_that_do_not_fit_are_left_out_and_then_the_question_is_cut():
    source = asking(shots=4, new_tokens=6, **FORMAT)
    length = len("Q: 4 + 1\nA:")
    rows = Prompts(source, BYTES, TEXT, encodes=False, context=40)
    shown = [decoded({"tokens": rows.eval_row(4)["tokens"][: rows.eval_row(4)["length"]]})]
    assert shown[0].endswith("Q: 4 + 1\nA:")
    assert max(int(rows.eval_row(index)["length"]) for index in range(30)) == rows.length <= 34
    assert "30 of 30 questions have fewer shots, since all would exceed 34 tokens" in rows.info.notes
    short = Prompts(source, BYTES, TEXT, encodes=False, context=6 + length - 3)
    assert decoded(short.eval_row(4)) == "4 + 1\nA:"
    assert "30 of 30 questions are longer than 8 tokens and cut" in short.info.notes
    with pytest.raises(UserError, match="max_new_tokens = 6: leaves no room for a question"):
        Prompts(source, BYTES, TEXT, encodes=False, context=6)


def test_an_encoder_decoders_question_ends_with_the_end_token_and_loses_what_stands_before_it():
    rows = Prompts(asking(), BYTES, Text(source_length=4), encodes=True, context=None)
    row = rows.eval_row(12)
    assert BYTES.decode(row["tokens"][:3]) == "12 "
    assert (row["tokens"][3], row["length"]) == (BYTES.end_id, 4)
    assert {key: value.shape for key, value in rows.padding().items()} == {key: v.shape for key, v in row.items()}
    assert rows.padding()["example_weight"] == 0


@pytest.mark.parametrize("encodes", [False, True])
def test_each_choice_is_scored_behind_its_question(encodes):
    source = asking(CHOICES, train=CHOICES, answer_format=" {answer}")
    row = Choices(source, BYTES, TEXT, encodes=encodes, context=64).eval_row(1)
    assert row["choices"].tolist() == [1, 1, 1]
    for choice, said in enumerate((" no", " green", " a long one")):
        scored = row["target_weights"][choice] > 0
        assert BYTES.decode(row["targets"][choice][scored]) == said
        assert decoded({"tokens": row["tokens"][choice]}).startswith("" if encodes else "grass" + said[:-1])
    if encodes:
        assert decoded({"tokens": row["source"][2]}) == "grass"
    first = Choices(source, BYTES, TEXT, encodes=encodes, context=64).eval_row(0)
    assert first["choices"].tolist() == [1, 1, 0]
    assert first["target_weights"][2].sum() == 0


def test_a_question_with_choices_that_is_too_long_loses_its_front():
    rows = Choices(asking(CHOICES, train=CHOICES), BYTES, TEXT, encodes=False, context=11)
    tokens = [rows.eval_row(1)[key] for key in ("tokens", "tokens_segments")]
    assert [decoded({"tokens": tokens[segments > 0]}) for tokens, segments in zip(*tokens, strict=True)] == [
        "ssn", "ssgree", "ssa long on",
    ]  # fmt: skip
    assert "1 of 2 questions are longer than 11 tokens and cut" in rows.info.notes
    with pytest.raises(UserError, match="has no choices"):
        Choices(asking(), BYTES, TEXT, encodes=False, context=11)


def test_the_last_word_is_said_with_the_space_before_it():
    assert split_last("one  two.\n") == ("one", "  two.")
    assert split_last("one") == ("", "one")
    rows = LastWords(texts("to be or not ", "word"), BYTES, TEXT, encodes=False, context=None)
    row = rows.eval_row(0)
    assert BYTES.decode(row["targets"][row["target_weights"] > 0]) == " not"
    assert decoded(row) == "to be or no"
    assert rows.eval_row(1)["tokens"][0] == BYTES.end_id  # nothing stands before it
    row = LastWords(texts("to be or not "), BYTES, TEXT, encodes=True, context=None).eval_row(0)
    assert (decoded(row, "source"), BYTES.decode(row["targets"][row["target_weights"] > 0])) == ("to be or", "not")
    with pytest.raises(UserError, match="holds no word"):
        LastWords(texts(" \n"), BYTES, TEXT, encodes=False, context=None)


LONG = ["Ünïcode the cat sat on the mat.", "a second text", "x"]


@pytest.mark.parametrize("kind", ["bytes", "characters", "bpe", "unigram", "wordpiece"])
def test_bytes_of_scored_text_are_those_of_the_text_but_for_its_first_token(kind):
    tokenizer = open_tokenizer(Tokenizer(kind=kind, vocabulary_size=300 if kind == "bpe" else 60), LONG * 3)
    source, sizes = texts(*LONG), [len(text.encode()) for text in LONG]
    first = [tokenizer.first_bytes(text) for text in LONG]
    for text, count in zip(LONG, first, strict=True):
        ids = tokenizer.encode(text)
        if kind in ("bytes", "characters", "bpe"):
            assert count == tokenizer.byte_lengths[ids[0]]
        else:
            assert text.encode()[:count].decode() == text[: len(tokenizer.decode(ids[:1]))]
    assert scored_bytes(source, tokenizer, TEXT, "windows") == sum(sizes) - first[0]
    assert scored_bytes(source, tokenizer, TEXT, "documents") == sum(sizes) - sum(first)
    assert scored_bytes(source, tokenizer, TEXT, "answers") is None


def test_the_most_common_training_answer_is_the_first_of_equals():
    train = MadeSource([{"source": "q", "target": target} for target in "babac"])
    assert asking(train=train).most_common() == "b"
    assert np.array_equal(asking(train=train).ids, TRAIN.ids)
