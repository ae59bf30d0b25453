"""A conversation is given to a model as it was in training, and what a tokenizer doesn't know is counted."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from made_texts import MadeSource

from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.rows import Spread
from vitzoo.data.settings import Data
from vitzoo.data.sources.text_files import open_text_files
from vitzoo.data.text.answers import answer_tokens, conversation, example_parts
from vitzoo.data.text.documents import Windows
from vitzoo.data.text.settings import Text, Tokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import UserError
from vitzoo.inference.generate import _prompt

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
    with pytest.raises(UserError, match="turn"):
        conversation(turns, Text(), ByteTokenizer())


TALK = MadeSource([{"turns": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]}])
ANSWER = MadeSource([{"prompt": "a", "completion": "b"}])


def test_a_checkpoint_knows_whether_its_answers_were_turns_of_conversations():
    inputs = TextProcessor(Text(length=8, tokenizer=Tokenizer(kind="bytes")), "answers", 0)
    for source, other, chat in ((TALK, ANSWER, True), (ANSWER, TALK, False)):
        learned = inputs.learned(source)
        assert learned.described(None)["chat"] is chat
        assert learned.learned(other).text.chat is not chat  # fine-tuning on others
    assert dataclasses.replace(inputs.learned(TALK), rows_of="windows").learned(ANSWER).text.chat is None
    with pytest.raises(
        UserError, match=r"inputs.tokens.chat = True: can't be set: the training data are conversations or aren't"
    ):
        Text(chat=True).check_rows("inputs.tokens", ["answers"], Data())


@pytest.mark.parametrize("chat", [None, True, False])
def test_a_model_of_prompts_and_completions_is_not_asked_in_turns(chat):
    info = SimpleNamespace(text=Text(chat=chat), tokenizer=ByteTokenizer())
    assert _prompt("hi", False, info) == "hi"
    if chat is False:
        with pytest.raises(UserError, match="trained on prompts and completions, not on conversations"):
            _prompt("hi", True, info)
    else:
        assert _prompt("hi", True, info).text == "user: hi\nassistant: "


def test_unknown_characters_are_counted_and_said(tmp_path):
    (tmp_path / "a.txt").write_text("abc abc\nabc\n")
    (tmp_path / "b.txt").write_text("abé漢 ab\n")
    tokenizer = open_tokenizer(Tokenizer(kind="characters"), ["abc \n"])
    for name, notes in (("a", ()), ("b", ("2 of 8 tokens stand for text that the tokenizer doesn't know",))):
        source = open_text_files(Data(validation_fraction=0.0), str(tmp_path / f"{name}.txt")).open("train")
        info = Windows(source, tokenizer, Text(length=4)).info
        assert tuple(note for note in info.notes if "know" in note) == notes


def test_some_rows_of_many_are_spread_from_first_to_last(tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(range(32, 97)))
    source = open_text_files(Data(validation_fraction=0.0), str(tmp_path / "a.txt")).open("train")
    rows = Windows(source, ByteTokenizer(), Text(length=4))
    few = Spread(rows, 3)
    assert (len(few), few.info.n) == (3, 3)
    assert [int(few.eval_row(i)["tokens"][0]) for i in range(3)] == [
        int(rows.eval_row(i)["tokens"][0]) for i in (0, 7, 15)
    ]
    assert len(Spread(rows, 1000)) == len(rows)
