"""A decoder's rows whose beginning is given: split at a draw, or a prompt before its answer."""

import numpy as np
import pytest
from made_texts import MadeSource, same, texts

from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.settings import Data
from vitzoo.data.text.answers import Answers, conversation
from vitzoo.data.text.continuations import Shape, row_of
from vitzoo.data.text.documents import PrefixDocuments, PrefixRows
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.errors import UserError
from vitzoo.models.gpt import GPTConfig

BYTES = ByteTokenizer()
WORDS = ["cat", "a", "sees the bird", "small dog", "of two", "x" * 50]
TURNS = [
    {"role": "user", "text": "1+1"},
    {"role": "assistant", "text": "2"},
    {"role": "user", "text": "so"},
    {"role": "assistant", "text": "ok"},
]


def split(row, segment=1):
    """The text of a segment that is in the prefix, and the text that is scored."""
    own = row["tokens_segments"] == segment
    given, said = row["tokens"][own & row["tokens_prefix"]], row["targets"][own & (row["target_weights"] > 0)]
    return BYTES.decode(given), BYTES.decode(said)


def all_splits(rows, position):
    """Of each segment of all rows, in an epoch."""
    made = [rows.train_row(index, 7, position + index) for index in range(len(rows))]
    return sorted(split(row, segment) for row in made for segment in range(1, row["tokens_segments"].max() + 1))


def test_prefix_and_scored_rest_are_the_text_and_its_end():
    rows = PrefixDocuments(texts(*WORDS), BYTES, Text(length=64))
    for index, word in enumerate(WORDS):
        row = rows.train_row(index, 0, index)
        given, said = split(row)
        assert given + said == f"{word}</s>"
        assert given
        # the prefix's last token is where the first scored one is said
        assert np.flatnonzero(row["target_weights"])[0] == len(given) - 1 == row["tokens_prefix"].sum() - 1


def test_a_split_is_drawn_evenly_anew_in_each_epoch_and_fixed_in_evaluation():
    rows = PrefixDocuments(texts("abcd"), BYTES, Text(length=8))
    found = np.array([rows.train_row(0, 3, epoch)["tokens_prefix"].sum() for epoch in range(2000)])
    # of the five tokens abcd</s> one to four are given, each a quarter of the time: standard deviation .0097
    assert np.abs(np.bincount(found, minlength=5)[1:] / 2000 - 1 / 4).max() < 4 * np.sqrt(3 / 16 / 2000)
    assert len(found) == (found > 0).sum()
    assert same(rows.train_row(0, 3, 5), rows.train_row(0, 3, 5))
    assert same(rows.eval_row(0), PrefixDocuments(texts("abcd"), BYTES, Text(length=8), seed=9).eval_row(0))


def test_a_text_is_split_packed_where_it_is_split_alone():
    alone, packed = (
        PrefixDocuments(texts(*WORDS), BYTES, Text(length=32, packing=packing)) for packing in (False, True)
    )
    assert len(packed) < len(alone)
    first, second = (all_splits(alone, epoch * len(alone)) for epoch in (0, 1))
    assert first == all_splits(packed, 0)
    assert second == all_splits(packed, len(packed))
    assert first != second


def test_a_causal_model_is_scored_on_the_same_tokens_and_told_no_prefix():
    made = {told: PrefixDocuments(texts(*WORDS), BYTES, Text(length=16), prefix_lm=told) for told in (0, 1)}
    plain, told = made[0].eval_row(2), made[1].eval_row(2)
    assert same(plain, {name: value for name, value in told.items() if name != "tokens_prefix"})
    assert "tokens_prefix" not in made[0].padding()
    assert not made[1].padding()["tokens_prefix"].any()


@pytest.mark.parametrize("packing", [False, True])
def test_each_answer_is_an_example_read_as_it_is_asked(packing):
    source = MadeSource([{"turns": TURNS}, {"turns": TURNS[:2]}, {"turns": TURNS[:1]}])
    text = Text(length=128, packing=packing)
    rows = Answers(source, BYTES, text, prefix_lm=True)
    made = [rows.eval_row(index) for index in range(len(rows))]
    found = [split(row, segment) for row in made for segment in range(1, row["tokens_segments"].max() + 1)]
    asked = [BYTES.decode(conversation(TURNS[:n], text, BYTES)[1]) for n in (1, 1, 3)]
    assert sorted(found) == sorted(zip(asked, ["2</s>", "2</s>", "ok</s>"], strict=True))
    assert asked[2] == "user: 1+1\nassistant: 2</s>user: so\nassistant: ".replace("</s>", "</s>\n")
    assert rows.info.notes == ("1 of 4 examples have no answer and are left out",)


def test_a_prompt_that_is_cut_is_the_prefix_as_far_as_it_is_kept():
    rows = Answers(MadeSource([{"prompt": "abcdefgh", "completion": "xy"}]), BYTES, Text(length=6), prefix_lm=True)
    assert split(rows.eval_row(0)) == ("efgh", "xy</s>")


def test_what_is_given_of_a_choice_is_its_prefix():
    given, said = BYTES.encode("ab"), BYTES.encode("cde")
    row = row_of((given, said), Shape.of([(given, said)], False, True), BYTES)
    assert row["tokens_prefix"].tolist() == [True, True, False, False]
    assert row["target_weights"].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("rows", ["windows", "documents"])
def test_a_prefix_lm_is_not_measured_on_rows_without_a_prefix(rows):
    inputs, config = TextProcessor(Text(), rows, 0), GPTConfig(prefix_lm=True)
    with pytest.raises(UserError, match=f"rows = {rows}: give a prefix LM no prefix: take prefix, which splits each"):
        inputs.rows(texts(*WORDS), Data(name="made"), config, train=False)


def test_rows_that_are_full_can_not_be_packed():
    with pytest.raises(
        UserError, match=r"inputs.tokens.packing = True: has no effect on an encoder-decoder's rows of prefix"
    ):
        PrefixRows(texts("abcdef"), BYTES, Text(packing=True))
