"""One long array of tokens, and windows over it."""

from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from made_texts import MadeSource, same, texts
from sent import sent

from vitzoo.data.text.documents import ScoredWindows, Windows
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import token_array
from vitzoo.data.text.tokenizers.characters import ByteTokenizer, CharacterTokenizer
from vitzoo.errors import UserError

BYTES = ByteTokenizer()
LETTERS = "".join(chr(97 + number % 26) for number in range(1000))


def ids(text):
    return BYTES.encode(text).tolist()


def test_several_documents_each_have_an_end():
    array = token_array(texts("ab", "", "c"), BYTES)
    assert array.tokens.tolist() == [*ids("ab"), 1, 1, *ids("c"), 1]
    assert array.starts.tolist() == [0, 3, 4, 6]
    assert array.document(2).tolist() == [*ids("c"), 1]


def test_a_single_text_goes_on():
    assert token_array(texts("abc"), BYTES).tokens.tolist() == ids("abc")


def test_tokens_take_two_bytes_where_the_vocabulary_allows():
    assert token_array(texts("abc"), BYTES).tokens.dtype == np.dtype("<u2")
    large = CharacterTokenizer("".join(map(chr, range(66_000, 132_000))))
    assert token_array(texts(chr(131_999)), large).tokens.tolist() == [65_999]


def test_the_array_is_kept_and_made_anew_when_text_or_tokenizer_changes(tmp_path, monkeypatch):
    # marin-community/marin #5034: a cache of another tokenizer was used
    monkeypatch.setenv("VITZOO_CACHE", str(tmp_path / "cache"))
    first = token_array(texts("abc"), BYTES)
    assert token_array(texts("abc"), BYTES).folder == first.folder
    for other in (
        token_array(texts("abd"), BYTES),
        token_array(texts("abc"), ByteTokenizer(sentinels=1)),
        token_array(texts("abc"), BYTES, prefix="x"),
        token_array(texts("abc"), BYTES, ends=True),
    ):
        assert other.folder != first.folder
    assert len(list((tmp_path / "cache" / "tokens").iterdir())) == 5


def test_an_array_that_could_not_be_finished_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("VITZOO_CACHE", str(tmp_path / "cache"))
    broken = MadeSource([{"text": "a"}, {"text": "b"}])
    broken.examples[1] = {}
    with pytest.raises(KeyError):
        token_array(broken, BYTES)
    assert list((tmp_path / "cache" / "tokens").iterdir()) == []


def test_an_array_is_mapped_again_in_a_worker():
    array = token_array(texts(LETTERS), BYTES)
    assert array.tokens[0] == BYTES.encode("a")[0]
    assert len(ForkingPickler.dumps(array)) < 1000
    assert np.array_equal(sent(array).tokens, array.tokens)


@pytest.mark.parametrize(("tokens", "length", "windows"), [(1000, 8, 124), (1001, 8, 125), (9, 8, 1)])
def test_the_windows_of_an_epoch_follow_one_another(tokens, length, windows):
    rows = Windows(texts(LETTERS * 2)[0] and texts((LETTERS * 2)[:tokens]), BYTES, Text(length=length))
    assert len(rows) == rows.info.n == windows
    whole = BYTES.encode((LETTERS * 2)[:tokens])
    given = np.concatenate([rows.eval_row(index)["tokens"] for index in range(windows)])
    said = np.concatenate([rows.eval_row(index)["targets"] for index in range(windows)])
    assert np.array_equal(given, whole[: windows * length])
    assert np.array_equal(said, whole[1 : windows * length + 1])


def test_a_window_is_full_and_scored():
    row = Windows(texts(LETTERS), BYTES, Text(length=8)).eval_row(3)
    assert row["target_weights"].tolist() == [1.0] * 8
    assert row["tokens_segments"].tolist() == [1] * 8
    assert row["tokens_positions"].tolist() == list(range(8))
    assert (row["id"], row["example_weight"]) == (3, 1.0)
    assert {key: (value.dtype.name, value.shape) for key, value in row.items()} == {
        "tokens": ("int32", (8,)), "targets": ("int32", (8,)), "target_weights": ("float32", (8,)),
        "tokens_segments": ("int32", (8,)), "tokens_positions": ("int32", (8,)),
        "example_weight": ("float32", ()), "id": ("int64", ()),
    }  # fmt: skip


def test_every_epoch_starts_at_another_offset_the_same_for_all_its_windows():
    rows = Windows(texts(LETTERS), BYTES, Text(length=8))
    whole = BYTES.encode(LETTERS)
    offsets = []
    for epoch in range(40):
        position = epoch * len(rows)
        row, later = rows.train_row(5, 7, position), rows.train_row(6, 7, position + 3)
        offsets.append(next(o for o in range(8) if np.array_equal(row["tokens"], whole[40 + o : 48 + o])))
        assert np.array_equal(later["tokens"], whole[48 + offsets[-1] : 56 + offsets[-1]])
    assert set(offsets) == set(range(8))
    assert same(rows.train_row(5, 7, 0), rows.train_row(5, 7, 0))


def test_without_offsets_training_reads_what_evaluation_reads():
    rows = Windows(texts(LETTERS), BYTES, Text(length=8, random_offsets=False))
    assert same(rows.train_row(5, 7, 900), rows.eval_row(5))


def test_the_last_window_stays_within_the_text():
    rows = Windows(texts(LETTERS[:17]), BYTES, Text(length=8))
    whole = BYTES.encode(LETTERS[:17])
    for epoch in range(20):
        assert np.array_equal(rows.train_row(1, 0, epoch * len(rows))["targets"], whole[9:17])


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(UserError, match=r"inputs.tokens.length = 8: made train has only 8 tokens"):
        Windows(texts("abcdefgh"), BYTES, Text(length=8))


def test_a_padding_row_has_the_shapes_of_others_and_no_weight():
    rows = Windows(texts(LETTERS), BYTES, Text(length=8))
    padding, row = rows.padding(), rows.eval_row(0)
    assert {k: (v.shape, v.dtype) for k, v in padding.items()} == {k: (v.shape, v.dtype) for k, v in row.items()}
    assert (
        padding["id"],
        padding["example_weight"],
        padding["target_weights"].sum(),
        padding["tokens_segments"].sum(),
    ) == (-1, 0, 0, 0)


def test_the_fingerprint_follows_tokenizer_and_length():
    marks = {
        Windows(texts(LETTERS), tokenizer, Text(length=length)).info.fingerprint
        for tokenizer in (BYTES, ByteTokenizer(sentinels=1))
        for length in (8, 9)
    }
    assert len(marks) == 4


@pytest.mark.parametrize("stride", [None, 8, 5, 1])
@pytest.mark.parametrize("tokens", [2, 5, 9, 10, 33, 41])
def test_evaluation_scores_every_token_but_the_first_once_and_with_enough_before_it(tokens, stride):
    whole = BYTES.encode(LETTERS[:tokens])
    rows = ScoredWindows(texts(LETTERS[:tokens]), BYTES, Text(length=8), stride=stride)
    found = {}
    for index in range(len(rows)):
        row = rows.eval_row(index)
        start = index * (stride or 8)
        for place in np.flatnonzero(row["target_weights"]):
            assert start + place + 1 not in found
            found[start + place + 1] = row["targets"][place]
            assert place >= (8 - (stride or 8) if index else 0)
            assert np.array_equal(row["tokens"][: place + 1], whole[start : start + place + 1])
    assert found == dict(enumerate(whole[1:].tolist(), 1))


def test_what_evaluation_windows_can_not_do_is_refused():
    with pytest.raises(UserError, match=r"stride = 9: is more than inputs.tokens.length = 8"):
        ScoredWindows(texts(LETTERS), BYTES, Text(length=8), stride=9)
    with pytest.raises(UserError, match=r"data.name = made: train has fewer than two tokens"):
        ScoredWindows(texts("a"), BYTES, Text(length=8))
