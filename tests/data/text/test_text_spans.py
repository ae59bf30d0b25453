"""Span corruption as in T5, and prefix language modelling."""

import numpy as np
import pytest
from made_texts import same, texts

from vitzoo.data.text.documents import PrefixRows
from vitzoo.data.text.settings import Text
from vitzoo.data.text.span_corruption import SpanCorruption, noise_mask, span_count, span_lengths
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.errors import UserError

BYTES = ByteTokenizer(sentinels=100)
LONG = "".join(chr(97 + number * 7 % 26) for number in range(3000))


def restored(row, tokenizer=BYTES):
    """The text, from source and target: each sentinel of the source replaced by its span of the target."""
    source = row["source"][row["source_segments"] > 0].tolist()
    target = row["targets"][row["tokens_segments"] > 0].tolist()
    assert source[-1] == target[-1] == tokenizer.end_id
    spans: dict[int, list[int]] = {}
    for id in target[:-1]:
        if id in tokenizer.specials.sentinels:
            spans[id] = []
            last = id
        else:
            spans[last].append(id)
    whole = [kept for id in source[:-1] for kept in spans.get(id, [id])]
    return tokenizer.decode(whole), list(spans)


@pytest.mark.parametrize(("source", "tokens", "target"), [(512, 568, 114), (1024, 1137, 229), (256, 284, 58)])
def test_lengths_are_those_of_t5(source, tokens, target):
    # the rule of text-to-text-transfer-transformer at density .15, mean span 3: 568 tokens hide round(85.2) = 85 in
    # round(85 / 3) = 28 spans: 483 + 28 + 1 = 512 and 85 + 28 + 1 = 114, the published pair
    assert span_lengths(source, 0.15, 3.0) == (tokens, target)


@pytest.mark.parametrize("length", [2, 3, 7, 20, 100, 568])
def test_a_mask_hides_the_exact_number_in_the_exact_spans_and_ends_hidden(length):
    for seed in range(30):
        mask = noise_mask(length, 0.15, 3.0, np.random.default_rng(seed))
        assert mask.sum() == max(1, round(length * 0.15))
        assert not mask[0]
        assert mask[-1]
        opens = np.flatnonzero(np.diff(mask.astype(int)) == 1)
        assert len(opens) == span_count(length, 0.15, 3.0)


def test_spans_have_the_mean_asked_for_and_every_place_is_masked_alike():
    random = np.random.default_rng(0)
    masks = np.stack([noise_mask(100, 0.15, 3.0, random) for _ in range(500)])
    spans = (np.diff(masks.astype(int), axis=1) == 1).sum()
    assert masks.sum() / spans == 3.0
    rolled = np.stack([noise_mask(100, 0.15, 3.0, random, roll=True) for _ in range(2000)])
    # standard deviation of a place's share: sqrt(.15 * .85 / 2000) = .008
    assert np.abs(rolled.mean(0) - 0.15).max() < 4 * 0.008


def test_partitions_are_even():
    # of 2 masked spans over 4 hidden tokens the first has 1, 2 or 3 of them, each a third of the time
    first = []
    random = np.random.default_rng(0)
    for _ in range(1500):
        mask = noise_mask(20, 0.2, 2.0, random)
        start = int(mask.argmax())
        first.append(int((~mask[start:]).argmax()))
    shares = np.bincount(first, minlength=4)[1:] / 1500
    assert np.abs(shares - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 1500)


@pytest.mark.parametrize("roll", [False, True])
def test_source_and_target_together_are_the_text(roll):
    text = Text(source_length=128, length=32, roll_spans=roll)
    rows = SpanCorruption(texts(LONG), BYTES, text)
    if not roll:
        whole = ""
        for index in range(len(rows)):
            part, sentinels = restored(rows.train_row(index, 3, index))
            whole += part
            assert sentinels == [BYTES.sentinel(number) for number in range(len(sentinels))]
        assert whole == LONG
    for index in range(len(rows)):
        row = rows.train_row(index, 3, index)
        assert sum((row[key] < 259).sum() for key in ("source",)) > 0
        ordinary = [row[k][(row[k] >= 3) & (row[k] < 259)] for k in ("source", "targets")]
        assert sum(map(len, ordinary)) == len(LONG[index * rows.window : (index + 1) * rows.window])


def test_the_first_span_decodes_as_the_first_sentinel():
    row = SpanCorruption(texts(LONG), BYTES, Text(source_length=64, length=16)).eval_row(0)
    source, target = BYTES.decode(row["source"]), BYTES.decode(row["targets"])
    assert target.startswith("<extra_id_0>")
    assert source.index("<extra_id_0>") < source.index("<extra_id_1>") < source.index("<extra_id_2>")
    assert source.endswith("</s>")


def test_rows_fill_the_source_exactly():
    rows = SpanCorruption(texts(LONG), BYTES, Text(source_length=512, length=114))
    row = rows.eval_row(0)
    assert rows.window == 568
    assert (row["source_segments"] == 1).all()
    assert (row["tokens_segments"] == 1).all()
    assert row["target_weights"].tolist() == [1.0] * 114
    assert row["tokens"].tolist() == [BYTES.pad_id, *row["targets"][:-1].tolist()]
    assert row["source_positions"].tolist() == list(range(512))


def test_spans_are_drawn_by_seed_and_position():
    rows = SpanCorruption(texts(LONG), BYTES, Text(source_length=64, length=16))
    assert same(rows.train_row(1, 5, 9), rows.train_row(1, 5, 9))
    assert not same(rows.train_row(1, 5, 9), rows.train_row(1, 5, 10))
    assert not same(rows.train_row(1, 5, 9), rows.train_row(1, 6, 9))
    assert same(rows.eval_row(1), rows.eval_row(1))


def test_special_text_survives_span_corruption():
    text = "a <pad> b </s> <extra_id_0> " * 20
    rows = SpanCorruption(texts(text), BYTES, Text(source_length=64, length=16))
    assert "".join(restored(rows.eval_row(index))[0] for index in range(len(rows))) == text


def test_what_cannot_hold_the_spans_is_refused():
    with pytest.raises(UserError, match=r"inputs.tokens.length = 100: a source of 512 tokens needs targets of 114"):
        SpanCorruption(texts(LONG), BYTES, Text(source_length=512, length=100))
    with pytest.raises(UserError, match=r"inputs.tokens.tokenizer.sentinels = 20: span 27 needs a sentinel of its own"):
        SpanCorruption(texts(LONG), ByteTokenizer(sentinels=20), Text(source_length=512, length=114))


@pytest.mark.parametrize("source_length", range(4, 80))
def test_every_source_length_holds_its_rows(source_length):
    tokens, target = span_lengths(source_length, 0.15, 3.0)
    rows = SpanCorruption(
        texts(LONG[: 3 * tokens + 2]), BYTES, Text(source_length=source_length, length=max(target, 2))
    )
    assert "".join(restored(rows.eval_row(i))[0] for i in range(len(rows))) == LONG[: 3 * tokens + 2]


def test_a_prefix_and_its_rest_are_the_text():
    rows = PrefixRows(texts(LONG), BYTES, Text(source_length=32, length=32))
    whole, splits = "", []
    for index in range(len(rows)):
        row = rows.train_row(index, 0, index)
        parts = [BYTES.decode(row[key], skip_specials=True) for key in ("source", "targets")]
        whole += "".join(parts)
        splits.append(len(parts[0]))
        scored = BYTES.decode(row["targets"][row["target_weights"] > 0])
        assert scored == parts[1] + "</s>"
    assert whole == LONG
    assert (min(splits), max(splits)) == (1, 30)
    assert same(rows.train_row(1, 5, 9), rows.train_row(1, 5, 9))
