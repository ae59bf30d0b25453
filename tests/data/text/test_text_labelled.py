"""Texts, pairs and words with labels."""

import numpy as np
import pytest
from made_texts import MadeSource

from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.settings import Data
from vitzoo.data.text.labelled import LabelledRows, TaggedRows
from vitzoo.data.text.settings import Text, Tokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.errors import RunError, UserError

MARKED, PLAIN = ByteTokenizer(masking=True), ByteTokenizer()
TEXTS = MadeSource([{"text": "abc", "label": 1}, {"text": "abcdefgh", "label": 0}], classes=("no", "yes"))


def seen(row, tokenizer=MARKED):
    return tokenizer.decode(row["tokens"][row["tokens_segments"] == 1])


def test_a_text_stands_between_marks_and_has_its_label():
    row = LabelledRows(TEXTS, MARKED, Text(length=8)).eval_row(0)
    assert seen(row) == "<cls>abc<sep>"
    assert (row["label"], row["label"].dtype, row["id"], row["example_weight"]) == (1, np.int32, 100, 1)
    assert row["tokens_types"].sum() == row["target_weights"].sum() == 0


def test_a_tokenizer_without_marks_gives_text_and_end():
    rows = LabelledRows(TEXTS, PLAIN, Text(length=8, prefix="p:"))
    assert seen(rows.eval_row(0), PLAIN) == "p:abc</s>"


def test_a_long_text_is_cut_before_the_mark_and_counted():
    rows = LabelledRows(TEXTS, MARKED, Text(length=8))
    assert seen(rows.eval_row(1)) == "<cls>abcdef<sep>"
    assert rows.info.notes == ("1 of 2 texts (50.0 %) are longer than inputs.tokens.length = 8 tokens and cut",)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("abc", "xy", "<cls>abc<sep>xy<sep>"),
        ("abcdefghij", "xy", "<cls>abcde<sep>xy<sep>"),
        ("ab", "uvwxyzuvw", "<cls>ab<sep>uvwxy<sep>"),
        ("abcdefghij", "uvwxyzuvw", "<cls>abcd<sep>uvw<sep>"),
    ],
)
def test_a_pair_loses_tokens_of_its_longer_part(first, second, expected):
    source = MadeSource([{"first": first, "second": second, "label": 0}], classes=("a", "b"))
    row = LabelledRows(source, MARKED, Text(length=10)).eval_row(0)
    assert seen(row) == expected
    second_part = len(expected.replace("<cls>", "c").replace("<sep>", "s").split("s")[1]) + 1
    assert row["tokens_types"].sum() == second_part


PAIRS = MadeSource([{"first": "ab", "second": "c", "label": 0}], classes=("a", "b"))


def test_a_model_knows_whether_it_was_trained_on_pairs_and_is_measured_on_no_others():
    inputs = TextProcessor(Text(length=8, tokenizer=Tokenizer(kind="bytes", masking=True)), "labelled", 0)
    for source, other, paired in ((TEXTS, PAIRS, False), (PAIRS, TEXTS, True)):
        learned = inputs.learned(source)
        assert learned.described(None)["paired"] is paired
        assert learned.learned(other).text.paired is not paired  # fine-tuning on others
        LabelledRows(source, MARKED, learned.text)
        kinds = ("single texts", "pairs") if paired else ("pairs", "single texts")
        message = f"data.name = made: holds {kinds[0]}, and the model was trained on {kinds[1]}"
        with pytest.raises(UserError, match=message):
            LabelledRows(other, MARKED, learned.text)
    assert inputs.text.paired is None
    with pytest.raises(
        UserError, match=r"inputs.tokens.paired = True: can't be set: the training data are pairs of texts or"
    ):
        Text(paired=True).check_rows("inputs.tokens", ["labelled"], Data())


def test_numbers_are_labels_of_regression():
    rows = LabelledRows(MadeSource([{"text": "a", "label": 2.5}]), MARKED, Text(length=4))
    assert (rows.eval_row(0)["label"], rows.eval_row(0)["label"].dtype) == (2.5, np.float32)
    assert rows.padding()["label"].dtype == np.float32


def test_a_label_outside_the_classes_fails_by_name():
    source = MadeSource([{"text": "a", "label": 2}], classes=("a", "b"))
    with pytest.raises(RunError, match="made:0: label 2 lies outside the 2 classes"):
        LabelledRows(source, MARKED, Text()).eval_row(0)


def test_words_are_scored_at_their_first_token():
    source = MadeSource([{"words": ["ab", "c", "", "def"], "tags": [2, 0, 1, 1]}], classes=("N", "V", "D"))
    row = TaggedRows(source, MARKED, Text(length=16)).eval_row(0)
    assert seen(row) == "<cls>ab c  def<sep>"
    places = np.flatnonzero(row["target_weights"])
    assert places.tolist() == [1, 3, 5, 6]
    assert row["targets"][places].tolist() == [2, 0, 1, 1]


def test_a_word_without_tokens_moves_no_other_label():
    source = MadeSource([{"words": ["", "b"], "tags": [2, 1]}], classes=("N", "V", "D"))
    row = TaggedRows(source, MARKED, Text(length=8)).eval_row(0)
    assert row["targets"][row["target_weights"] > 0].tolist() == [1]


def test_long_texts_lose_their_last_words():
    source = MadeSource([{"words": ["abc", "de"], "tags": [0, 1]}], classes=("N", "V"))
    rows = TaggedRows(source, MARKED, Text(length=5))
    assert rows.eval_row(0)["target_weights"].sum() == 1
    assert rows.info.notes == ("1 of 1 texts (100.0 %) are longer than inputs.tokens.length = 5 tokens and cut",)


@pytest.mark.parametrize("make", [
    lambda: LabelledRows(TEXTS, MARKED, Text(length=8)),
    lambda: TaggedRows(MadeSource([{"words": ["a"], "tags": [0]}], classes=("N",)), MARKED, Text(length=8)),
])  # fmt: skip
def test_padding_has_all_keys_and_no_weight(make):
    rows = make()
    padding, row = rows.padding(), rows.eval_row(0)
    assert {k: (v.shape, v.dtype) for k, v in padding.items()} == {k: (v.shape, v.dtype) for k, v in row.items()}
    assert (padding["example_weight"], padding["id"], padding["tokens_segments"].sum()) == (0, -1, 0)


def test_data_without_labels_is_refused():
    with pytest.raises(UserError, match="classification needs the fields text, label; this data has text"):
        LabelledRows(MadeSource([{"text": "a"}]), MARKED, Text())


@pytest.mark.parametrize("label", [float("nan"), float("inf"), 1e300])
def test_a_number_that_is_not_finite_ends_the_run_with_its_place(label):
    source = MadeSource([{"text": "a", "label": 1.0}, {"text": "b", "label": label}])
    rows = LabelledRows(source, MARKED, Text(length=8))
    with pytest.raises(RunError, match=r"made:1: label .* is no finite number"):
        rows.eval_row(1)
