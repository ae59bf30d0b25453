"""Several sources in one stream, exact in order."""

import collections

import numpy as np
import pytest
from made_texts import MadeSource, same, texts

from vitzoo.data.text.documents import Windows
from vitzoo.data.text.examples import Pairs
from vitzoo.data.text.mixture import BLOCK, MixtureRows, mixing_rates, shares
from vitzoo.data.text.settings import Mixture, Text
from vitzoo.data.text.span_corruption import SpanCorruption
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.errors import UserError
from vitzoo.schema import build

BYTES = ByteTokenizer(sentinels=100)
TEXT = Text(source_length=32, length=16)


def pairs(letter, count):
    return Pairs(
        MadeSource([{"source": f"{letter}{n}", "target": f"{n}"} for n in range(count)], name=letter), BYTES, TEXT
    )


def source_of(row):
    return BYTES.decode(row["source"], skip_specials=True)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.1, 0.3, 0.6]),  # 100, 300, 600 rows
        ({"cap": 200}, [0.2, 0.4, 0.4]),
        ({"temperature": 2.0}, np.sqrt([100, 300, 600]) / np.sqrt([100, 300, 600]).sum()),
        ({"cap": 300, "temperature": 2.0}, np.sqrt([1, 3, 3]) / np.sqrt([1, 3, 3]).sum()),
        ({"rates": (1, 1, 2)}, [0.25, 0.25, 0.5]),
        ({"rates": (0.6e308, 0.6e308, 1.2e308)}, [0.25, 0.25, 0.5]),
    ],
)
def test_rates_follow_raffel_et_al(settings, expected):
    # 2020, section 3.5.2: r = min(e, K) / sum, and its root at temperature T
    rates = mixing_rates(np.array([100, 300, 600]), build(Mixture, settings))
    assert np.allclose(rates, expected)
    assert shares(rates).sum() == BLOCK
    assert np.abs(shares(rates) / BLOCK - rates).max() < 1 / BLOCK


def test_a_rare_source_comes_at_least_once_in_a_block():
    assert shares(np.array([1e-9, 1 - 1e-9])).tolist() == [1, BLOCK - 1]


def test_every_block_holds_each_source_exactly_as_often_as_its_rate_says():
    rows = MixtureRows([pairs("a", 7), pairs("b", 5)], Mixture(rates=(0.3, 0.7)))
    for block in (0, 3):
        places = [rows.place(0, position) for position in range(block * BLOCK, (block + 1) * BLOCK)]
        assert collections.Counter(number for number, _ in places) == {0: 3000, 1: 7000}
        own = [[rank for number, rank in places if number == k] for k in (0, 1)]
        assert own == [list(range(block * 3000, block * 3000 + 3000)), list(range(block * 7000, block * 7000 + 7000))]


def test_sources_are_mixed_within_a_block():
    rows = MixtureRows([pairs("a", 7), pairs("b", 5)], Mixture(rates=(0.5, 0.5)))
    first = [rows.place(0, position)[0] for position in range(100)]
    assert 30 < sum(first) < 70
    assert first != [rows.place(1, position)[0] for position in range(100)]


def test_each_source_goes_through_its_own_epochs():
    rows = MixtureRows([pairs("a", 7), pairs("b", 5)], Mixture(rates=(0.3, 0.7)))
    stream = [source_of(rows.train_row(0, 4, position)) for position in range(300)]
    for letter, count in (("a", 7), ("b", 5)):
        own = [text for text in stream if text[0] == letter]
        for epoch in range(len(own) // count):
            assert sorted(own[epoch * count : (epoch + 1) * count]) == [f"{letter}{n}" for n in range(count)]


def test_a_position_gives_the_same_row_however_it_is_reached():
    make = lambda: MixtureRows([pairs("a", 7), pairs("b", 5)], Mixture())  # noqa: E731
    straight = make()
    for position in range(0, 30_000, 997):
        straight.train_row(0, 4, position)
    for position in (0, 29_911, 12_345):
        assert same(straight.train_row(3, 4, position), make().train_row(8, 4, position))


def test_two_alike_sources_draw_differently():
    spans = [SpanCorruption(texts("abcdefgh" * 20), BYTES, TEXT) for _ in range(2)]
    rows = MixtureRows(spans, Mixture(rates=(1, 1)))
    first = {}
    for position in range(200):
        number, own = rows.place(0, position)
        first.setdefault((number, own), rows.train_row(0, 0, position)["source"].tolist())
    assert any(first[0, own] != first[1, own] for own in range(20))


def test_evaluation_goes_through_all_sources_with_ids_of_their_own():
    rows = MixtureRows([pairs("a", 7), pairs("b", 5)], Mixture())
    assert len(rows) == rows.info.n == 12
    found = [rows.eval_row(index) for index in range(12)]
    assert [source_of(row) for row in found] == [f"a{n}" for n in range(7)] + [f"b{n}" for n in range(5)]
    assert [int(row["id"]) for row in found] == list(range(12))
    assert rows.padding()["example_weight"] == 0
    assert rows.info.notes[0] == "mixture: a 58.33% + b 41.67%"


def test_sources_of_other_shapes_are_refused():
    other = Windows(texts("abcdefgh" * 20), BYTES, TEXT)
    with pytest.raises(UserError, match="rows differ from those of a in source, source_positions, source_segments"):
        MixtureRows([pairs("a", 7), other], Mixture())


def test_rates_and_sizes_exclude_each_other():
    with pytest.raises(UserError, match=r"mixture\.rates"):
        build(Mixture, {"rates": (1, 2), "cap": 5}, "mixture")
    with pytest.raises(UserError, match="must be 2 numbers, one for each source"):
        MixtureRows([pairs("a", 7), pairs("b", 5)], Mixture(rates=(1.0,)))
