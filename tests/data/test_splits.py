"""Split expressions mean what they mean in TFDS."""

import pytest

from vitzoo.data.splits import Piece, parse
from vitzoo.errors import UserError


@pytest.mark.parametrize(("count", "first", "rest"), [(150, 100, 50), (10_003, 6_702, 3_301)])
def test_a_share_and_its_complement_hold_every_example_once(count, first, rest):
    head, tail = parse("train[:67%]", {"train": count}), parse("train[67%:]", {"train": count})
    assert [piece.stop - piece.start for piece in head + tail] == [first, rest]
    assert (head[0].start, head[0].stop, tail[0].stop) == (0, tail[0].start, count)


@pytest.mark.parametrize("expression", ["train[:10%]", "train[3:]", "train[2:2]", "train[2:1]"])
def test_a_split_without_examples_is_refused(expression):
    with pytest.raises(UserError, match=r"empty split: no example is in it \(there are: train 3\)"):
        parse(expression, {"train": 3})


def test_parts_are_joined_in_the_order_written():
    counts = {"train": 100, "test": 20}
    assert parse("test+train[10:-5]", counts) == [Piece("test", 0, 20), Piece("train", 10, 95)]
    assert parse("all", counts) == [Piece("train", 0, 100), Piece("test", 0, 20)]


def test_an_unknown_split_is_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"no split 'trian'; did you mean train\? there are: train, test"):
        parse("trian[:5%]", {"train": 10, "test": 5})


@pytest.mark.parametrize("expression", ["", "train[", "train[a:b]", "train[:]", "train[1:2:3]", "train[0.5:]", "a b"])
def test_what_is_no_split_is_refused(expression):
    with pytest.raises(UserError):
        parse(expression, {"train": 10})


def test_a_slice_beyond_the_end_is_refused():
    with pytest.raises(UserError, match="lies outside: there are 10 examples"):
        parse("train[:11]", {"train": 10})


@pytest.mark.parametrize("count", [3, 150, 1437, 10_003, 1_281_167])
def test_slices_are_those_of_tfds(count):
    import tensorflow_datasets as tfds

    split = tfds.core.SplitInfo(name="train", shard_lengths=[count], num_bytes=0, filename_template=None)
    for expression in (
        "train",
        "train[:99%]",
        "train[33%:66%]",
        "train[-1%:]",
        "train[:-2]",
        "train[12.5%:]",
        "train[1:3]",
    ):
        theirs = tfds.core.ReadInstruction.from_spec(expression).to_absolute({"train": split})[0]
        start, stop = theirs.from_ or 0, count if theirs.to is None else theirs.to
        if start >= stop:
            with pytest.raises(UserError):
                parse(expression, {"train": count})
        else:
            assert parse(expression, {"train": count}) == [Piece("train", start, stop)], expression


@pytest.mark.parametrize(
    "number", ["1_0", "٣", "１", "+1", "0x1", "1e0", "_1", "1_", "--1", "1 0", "inf", "nan", "1.0"]
)
@pytest.mark.parametrize("form", ["train[:{}]", "train[{}:]", "train[:{}%]", "test+train[{}:5]", "train[2:{}]"])
def test_positions_are_written_in_plain_digits(form, number):
    """In TFDS's syntax: whole numbers, or decimals before a %."""
    if "%" in form and number in ("1.0", "1e0"):
        return
    with pytest.raises(UserError, match=r"data\.split = "):
        parse(form.format(number), {"train": 10, "test": 5})


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("test+test", r"names test\[0:5\] \(5 examples\) twice"),
        ("all+train", r"names train\[0:10\] \(10 examples\) twice"),
        ("train[:60%]+train[5:]", r"names train\[5:6\] \(1 example\) twice"),
        ("train[5:]+test+train[-1:]", r"names train\[9:10\]"),
        ("train[:8]+train[2:3]+train[6:7]", r"names train\[2:3\]"),
    ],
)
def test_an_example_named_twice_is_refused(expression, told):
    with pytest.raises(UserError, match=told):
        parse(expression, {"train": 10, "test": 5})


def test_pieces_that_only_touch_are_joined():
    joined = [Piece("train", 5, 10), Piece("train", 0, 5)]
    assert parse("train[5:]+train[:5]+train[3:3]", {"train": 10}) == joined


@pytest.mark.parametrize("expression", ["all", "train+all", " all "])
def test_all_is_refused_where_it_is_the_name_of_one_split_among_others(expression):
    counts = {"train": 6, "all": 4}
    with pytest.raises(UserError, match=r"write train\+all\[:100%\] for all of them, all\[:100%\] for the one"):
        parse(expression, counts)
    assert parse("train+all[:100%]", counts) == [Piece("train", 0, 6), Piece("all", 0, 4)]
    assert parse("all[:100%]", counts) == [Piece("all", 0, 4)]
    assert parse("train", counts) == [Piece("train", 0, 6)]
    assert parse("all", {"all": 4}) == [Piece("all", 0, 4)]
