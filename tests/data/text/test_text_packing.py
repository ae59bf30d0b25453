"""Texts that share a row: nothing lost, nothing twice, nothing crosses."""

import time

import numpy as np
import pytest
from made_texts import MadeSource, same, texts
from sent import sent

from vitzoo.data.text.documents import Documents, cut_documents
from vitzoo.data.text.examples import Pairs
from vitzoo.data.text.packing import pack
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import Specials
from vitzoo.data.text.tokenizers.characters import ByteTokenizer

BYTES = ByteTokenizer()
WORDS = [chr(97 + number % 26) * (1 + number * 7 % 13) for number in range(60)]


def segments_of(row):
    """(tokens, targets, weights, positions) of each text of a row."""
    return [
        tuple(
            row[key][row["tokens_segments"] == number].tolist()
            for key in ("tokens", "targets", "target_weights", "tokens_positions")
        )
        for number in range(1, row["tokens_segments"].max() + 1)
    ]


def test_a_plan_holds_every_text_once_and_no_row_overflows():
    lengths = np.random.default_rng(0).integers(1, 30, 9000)
    plan = pack(lengths, [32], seed=1)
    assert sorted(plan.items.tolist()) == list(range(9000))
    sums = [lengths[plan.row(row)].sum() for row in range(len(plan))]
    assert max(sums) <= 32
    assert np.mean(sums) > 0.97 * 32


def test_first_fit_puts_a_text_into_the_first_row_with_room():
    order = np.random.default_rng(3).permutation(5).tolist()
    lengths = np.zeros(5, int)
    lengths[order] = [6, 5, 3, 4, 2]  # rows of 10: 6+3, 5+4, then 2 fits neither of (1, 1) left
    assert [pack(lengths, [10], seed=3).row(row).tolist() for row in range(3)] == [
        [order[0], order[2]], [order[1], order[3]], [order[4]],
    ]  # fmt: skip


def test_a_plan_is_a_function_of_lengths_capacity_and_seed():
    lengths = np.arange(1, 31)
    plans = [pack(lengths, [32], seed=seed).items.tolist() for seed in (0, 0, 1)]
    assert plans[0] == plans[1] != plans[2]


def test_a_large_plan_is_kept_and_mapped(monkeypatch):
    monkeypatch.setattr("vitzoo.data.text.packing.KEPT_FROM", 10)
    plan = pack(np.arange(1, 31), [32], seed=0)
    again = sent(plan)
    assert isinstance(plan.items, np.memmap)
    assert isinstance(again.items, np.memmap)
    monkeypatch.setattr("vitzoo.data.text.packing.KEPT_FROM", 100)
    assert np.array_equal(pack(np.arange(1, 31), [32], seed=0).items, again.items)


def test_packing_keeps_pace():
    start = time.process_time()
    pack(np.random.default_rng(0).integers(1, 512, 20_000), [512], seed=0)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("packing", [False, True])
def test_documents_score_every_token_but_the_first_and_one_end(packing):
    rows = Documents(texts(*WORDS), BYTES, Text(length=32, packing=packing))
    found = [text for index in range(len(rows)) for text in segments_of(rows.eval_row(index))]
    expected = []
    for word in WORDS:
        ids = BYTES.encode(word).tolist()
        expected.append((ids, [*ids[1:], 1], [1.0] * len(ids), list(range(len(ids)))))
    assert sorted(found) == sorted(expected)
    assert len(rows) == 60 or packing
    assert not packing or len(rows) <= 1.1 * sum(map(len, WORDS)) / 32 + 1


def test_padding_by_the_end_token_leaves_one_end_to_score():
    # huggingface/transformers #4122: with padding = end and a loss that ignores by id, a model never learns to stop
    tokenizer = ByteTokenizer()
    tokenizer.specials = Specials(pad=1, end=1, names=tokenizer.specials.names)
    rows = Documents(texts("abc", "defgh"), tokenizer, Text(length=8))
    pair = [rows.eval_row(index) for index in range(2)]
    assert sum(row["target_weights"].sum() for row in pair) == 3 + 5
    for row in pair:
        assert (row["targets"][row["target_weights"] > 0] == 1).sum() == 1
        assert (row["tokens"][row["tokens_segments"] == 0] == 1).all()


def test_a_long_document_is_cut_and_scores_each_token_once():
    text = "".join(chr(97 + number % 26) for number in range(50))
    rows = Documents(texts(text, "xy"), BYTES, Text(length=16, packing=True), seed=2)
    found = [text for index in range(len(rows)) for text in segments_of(rows.eval_row(index))]
    ids = [*BYTES.encode(text).tolist(), 1]
    pieces = [(ids[o : o + 16][: 50 - o], ids[o + 1 : o + 17]) for o in (0, 16, 32, 48)]
    assert sorted(f[:2] for f in found) == sorted([*pieces, (BYTES.encode("xy").tolist(), [BYTES.encode("y")[0], 1])])
    assert rows.info.notes == ("1 of 2 documents are longer than a row and cut into pieces",)


def test_pieces_of_documents_are_counted_exactly():
    assert cut_documents(np.array([0, 5, 8, 9, -1]), 4).tolist() == [
        [1, 0, 4], [1, 4, 1], [2, 0, 4], [2, 4, 4], [3, 0, 4], [3, 4, 4], [3, 8, 1],
    ]  # fmt: skip


def test_rows_travel_to_a_worker_as_they_are():
    for rows in (
        Documents(texts(*WORDS), BYTES, Text(length=32, packing=True)),
        Pairs(PAIRS, BYTES, Text(packing=True)),
    ):
        assert same(sent(rows).eval_row(2), rows.eval_row(2))


def test_training_and_evaluation_read_the_same_rows():
    rows = Documents(texts(*WORDS), BYTES, Text(length=32, packing=True))
    assert same(rows.train_row(2, 9, 77), rows.eval_row(2))


PAIRS = MadeSource([{"source": word, "target": word[::-1].upper() + "!"} for word in WORDS])


def pair_parts(row):
    return [
        (
            row["source"][row["source_segments"] == number].tolist(),
            row["source_positions"][row["source_segments"] == number].tolist(),
            row["tokens"][row["tokens_segments"] == number].tolist(),
            row["targets"][row["tokens_segments"] == number].tolist(),
            row["target_weights"][row["tokens_segments"] == number].tolist(),
        )
        for number in range(1, row["tokens_segments"].max() + 1)
    ]


@pytest.mark.parametrize("packing", [False, True])
def test_a_pair_is_the_same_alone_and_packed(packing):
    text = Text(source_length=40, length=48, packing=packing, prefix="up: ")
    rows = Pairs(PAIRS, BYTES, text)
    found = [part for index in range(len(rows)) for part in pair_parts(rows.eval_row(index))]
    expected = []
    for example in PAIRS.examples:
        source = [*BYTES.encode("up: " + example["source"]).tolist(), 1]
        target = [*BYTES.encode(example["target"]).tolist(), 1]
        expected.append((source, list(range(len(source))), [0, *target[:-1]], target, [1.0] * len(target)))
    assert sorted(found) == sorted(expected)
    assert len(rows) == 60 or (packing and len(rows) < 40)


def test_pairs_too_long_are_cut_before_the_end_token_and_counted():
    rows = Pairs(
        MadeSource([{"source": "abcdef", "target": "xyz"}, {"source": "a", "target": "uvwxyz"}]),
        BYTES, Text(source_length=4, length=5),
    )  # fmt: skip
    first, second = rows.eval_row(0), rows.eval_row(1)
    assert first["source"].tolist() == [*BYTES.encode("abc").tolist(), 1]
    assert second["targets"].tolist() == [*BYTES.encode("uvwx").tolist(), 1]
    assert rows.info.notes == (
        "1 of 2 sources are longer than 4 tokens and cut at the end",
        "1 of 2 targets are longer than 5 tokens and cut at the end",
    )


def test_a_padding_row_of_pairs_has_all_keys():
    rows = Pairs(PAIRS, BYTES, Text())
    assert {k: (v.shape, v.dtype) for k, v in rows.padding().items()} == {
        k: (v.shape, v.dtype) for k, v in rows.eval_row(0).items()
    }
    assert rows.padding()["source_segments"].sum() == 0
