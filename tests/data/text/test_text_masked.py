"""Masked language modelling as in BERT."""

import numpy as np
import pytest
from made_texts import same, texts

from vitzoo.data.text.masked import MaskedRows, Masking
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.data.text.tokenizers.library import LibraryTokenizer, roles_of
from vitzoo.errors import UserError

BYTES = ByteTokenizer(masking=True)
DOCUMENTS = [chr(97 + number) * (20 + 3 * number) for number in range(26)]


def wordpiece():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "cat", "##s", ",", "sat"]
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordPiece({piece: id for id, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    import json

    definition = json.loads(made.to_str())
    return LibraryTokenizer(definition, roles_of(definition, {}))


@pytest.mark.parametrize("padding", [0, 200])
def test_fifteen_percent_of_real_tokens_are_chosen_and_shown_80_10_10(padding):
    # huggingface/transformers #11155: special tokens and padding were chosen
    letters = ("".join(map(chr, range(97, 123))) * 8)[:200]
    rows = MaskedRows(texts(*[letters] * 20), BYTES, Text(length=202 + padding))
    chosen = real = masked = kept = other = 0
    for index in range(500):
        row = rows.train_row(index % len(rows), 0, index)
        places = row["target_weights"] > 0
        assert (row["tokens_segments"] == 0).sum() == padding
        assert not places[row["tokens_segments"] == 0].any()
        assert not np.isin(row["targets"][places], BYTES.special_ids).any()
        assert places.sum() == 30  # exactly round(200 * .15)
        shown, text = row["tokens"][places], row["targets"][places]
        assert np.array_equal(row["tokens"][~places], row["targets"][~places])
        assert not np.isin(shown[shown != BYTES.mask_id], BYTES.special_ids).any()
        chosen, real = chosen + places.sum(), real + 200
        masked, kept = masked + (shown == BYTES.mask_id).sum(), kept + (shown == text).sum()
        other += ((shown != text) & (shown != BYTES.mask_id)).sum()
    assert (chosen, real) == (15_000, 100_000)
    # four standard deviations: 4 * sqrt(.8 * .2 / 15000) = 1.3 %, 4 * sqrt(.1 * .9 / 15000) = 1 %
    assert abs(masked / chosen - 0.8) < 0.013
    assert abs(kept / chosen - 0.1) < 0.011
    assert abs(other / chosen - 0.1) < 0.011


def test_a_random_token_can_be_any_ordinary_one():
    masking = Masking(BYTES, 0.5, whole_words=False)
    ids = BYTES.encode("a" * 100_000)
    shown, chosen = masking(ids, np.random.default_rng(0))
    others = shown[chosen & (shown != BYTES.mask_id) & (shown != ids)]
    assert set(others.tolist()) == set(range(3, 259)) - {ids[0]}


def test_rows_are_pieces_of_documents_between_marks():
    rows = MaskedRows(texts(*DOCUMENTS), BYTES, Text(length=40))
    found = {}
    for index in range(len(rows)):
        row = rows.eval_row(index)
        real = row["targets"][row["tokens_segments"] == 1]
        assert (real[0], real[-1]) == (BYTES.classify_id, BYTES.separate_id)
        assert row["target_weights"][row["tokens_segments"] == 0].sum() == 0
        piece = BYTES.decode(real[1:-1])
        assert len(set(piece)) == 1
        found[piece[0]] = found.get(piece[0], "") + piece
    assert sorted(found.values()) == sorted(DOCUMENTS)


def test_packed_rows_run_on_with_ends_between_documents():
    rows = MaskedRows(texts(*DOCUMENTS), BYTES, Text(length=40, packing=True))
    text = "".join(BYTES.decode(rows.eval_row(i)["targets"]) for i in range(len(rows)))
    plain = text.replace("<cls>", "").replace("<sep>", "").replace("<pad>", "")
    assert plain == "".join(document + "</s>" for document in DOCUMENTS)
    end = [row["target_weights"][row["targets"] == BYTES.end_id].sum() for row in map(rows.eval_row, range(len(rows)))]
    assert sum(end) == 0


def test_choices_are_drawn_by_seed_and_position():
    rows = MaskedRows(texts(*DOCUMENTS), BYTES, Text(length=40))
    assert same(rows.train_row(3, 1, 50), rows.train_row(3, 1, 50))
    assert not same(rows.train_row(3, 1, 50), rows.train_row(3, 1, 51))
    assert same(rows.eval_row(3), rows.eval_row(3))


@pytest.mark.parametrize("kind", ["wordpiece", "bytes"])
def test_whole_words_are_chosen_together(kind):
    tokenizer = wordpiece() if kind == "wordpiece" else BYTES
    text = "unaffable cats, sat cat, unaffable sat cats"
    words = {
        "wordpiece": [[0, 1, 2], [3, 4], [5], [6], [7], [8], [9, 10, 11], [12], [13, 14]],
        "bytes": [list(range(*span)) for span in ((0, 9), (10, 14), (16, 19), (20, 23), (25, 34), (35, 38), (39, 43))],
    }[kind]
    ids = tokenizer.encode(text)
    masking = Masking(tokenizer, 0.4, whole_words=True)
    limit = round(len(ids) * 0.4)
    hit = set()
    for seed in range(60):
        _, chosen = masking(ids, np.random.default_rng(seed))
        for word in words:
            assert len({bool(chosen[place]) for place in word}) == 1
            hit |= {word[0]} if chosen[word[0]] else set()
        assert 0 < chosen.sum() <= limit or chosen.sum() in map(len, words)
    assert hit == {word[0] for word in words}


def test_a_row_of_special_tokens_alone_chooses_none():
    ids = np.array([BYTES.classify_id, BYTES.separate_id], np.int32)
    shown, chosen = Masking(BYTES, 0.15, whole_words=False)(ids, np.random.default_rng(0))
    assert not chosen.any()
    assert np.array_equal(shown, ids)


def test_half_of_the_second_parts_are_from_another_document():
    rows = MaskedRows(texts(*DOCUMENTS), BYTES, Text(length=48, next_sentence=True))
    assert rows.info.classes == ("follows", "random")
    labels = []
    for number in range(600):
        row = rows.train_row(number % len(rows), 0, number)
        text = BYTES.decode(row["targets"][row["tokens_segments"] == 1])
        first, second = text.removeprefix("<cls>").removesuffix("<sep>").split("<sep>")
        assert first
        assert second
        assert (first[0] == second[0]) == (row["label"] == 0)
        assert row["tokens_types"].sum() == len(second) + 1
        assert row["tokens_types"][: len(first) + 2].sum() == 0
        labels.append(int(row["label"]))
    assert abs(np.mean(labels) - 0.5) < 4 * 0.5 / np.sqrt(600)


def test_next_sentences_of_one_document_are_refused():
    with pytest.raises(UserError, match=r"inputs.tokens.next_sentence = True: made is one document"):
        MaskedRows(texts("abcdef"), BYTES, Text(next_sentence=True))


def test_a_tokenizer_without_a_mask_is_refused():
    said = r"tokenizer = bytes: has no token to mask: inputs\.tokens\.tokenizer\.masking=true adds one"
    with pytest.raises(UserError, match=said):
        MaskedRows(texts("abcdef"), ByteTokenizer(), Text())


@pytest.mark.parametrize("next_sentence", [False, True])
def test_a_padding_row_has_all_keys(next_sentence):
    rows = MaskedRows(texts(*DOCUMENTS), BYTES, Text(length=40, next_sentence=next_sentence))
    assert {k: (v.shape, v.dtype) for k, v in rows.padding().items()} == {
        k: (v.shape, v.dtype) for k, v in rows.eval_row(0).items()
    }
