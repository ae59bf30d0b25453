"""A conversation is given to a model as it was in training, and what a tokenizer doesn't know is counted."""

import numpy as np
import pytest

from vitzoo.data.settings import Data
from vitzoo.data.spread import Spread
from vitzoo.data.text.answers import answer_tokens, conversation, example_parts
from vitzoo.data.text.settings import Text, Tokenizer
from vitzoo.data.text.sources.files import open_text_files
from vitzoo.data.text.tokenizers.bytes import ByteTokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.windows import Windows
from vitzoo.errors import Refused

TURNS = [("user", "hi"), ("assistant", "hello"), ("user", "how?"), ("assistant", "so")]


def test_what_is_asked_of_a_model_is_the_beginning_of_what_it_was_trained_on():
    tokenizer, text = ByteTokenizer(), Text(prefix="P ", turn_prefix="<{role}> ", turn_suffix="|")
    turns = [{"role": role, "text": said} for role, said in TURNS]
    whole, learned = answer_tokens(example_parts({"turns": turns}, text), tokenizer)
    given = [{"role": role, "content": said} for role, said in TURNS[:3]]
    shown, asked = conversation(given, text, tokenizer)
    assert shown == "P <user> hi|<assistant> hello|<user> how?|<assistant> "
    np.testing.assert_array_equal(asked, whole[: len(asked)])
    np.testing.assert_array_equal(learned[len(asked) :], 1)  # what follows is the answer and its end


@pytest.mark.parametrize("turns", [[], [{"role": "user"}], [{"content": "x"}], ["x"]])
def test_what_is_no_conversation_is_refused(turns):
    with pytest.raises(Refused, match="turn"):
        conversation(turns, Text(), ByteTokenizer())


def test_unknown_characters_are_counted_and_said(tmp_path):
    (tmp_path / "a.txt").write_text("abc abc\nabc\n")
    (tmp_path / "b.txt").write_text("abé漢 ab\n")
    tokenizer = open_tokenizer(Tokenizer(kind="characters"), ["abc \n"])
    for name, notes in (("a", ()), ("b", ("2 of 8 tokens stand for text that the tokenizer doesn't know",))):
        source = open_text_files(Data(validation_fraction=0.0), str(tmp_path / f"{name}.txt"), Text()).open("train")
        info = Windows(source, tokenizer, Text(sequence_length=4)).info
        assert tuple(note for note in info.notes if "know" in note) == notes


def test_some_rows_of_many_are_spread_from_first_to_last(tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(range(32, 97)))
    source = open_text_files(Data(validation_fraction=0.0), str(tmp_path / "a.txt"), Text()).open("train")
    rows = Windows(source, ByteTokenizer(), Text(sequence_length=4))
    few = Spread(rows, 3)
    assert (len(few), few.info.n) == (3, 3)
    assert [int(few.eval_row(i)["tokens"][0]) for i in range(3)] == [
        int(rows.eval_row(i)["tokens"][0]) for i in (0, 7, 15)
    ]
    assert len(Spread(rows, 1000)) == len(rows)
