"""One name has many spellings: composed or decomposed (Unicode's normal forms), with or without spaces around it."""

import pytest

from vitzoo import names

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (COMPOSED, DECOMPOSED, True),
        ("pos", "pos ", True),
        ("\u00a0pos", "pos\t", True),
        ("\u212b", "\u00c5", True),  # the sign for angstrom is the letter (Unicode, canonical equivalence)
        ("\uac00", "\u1100\u1161", True),  # a syllable of Hangul, and its two letters
        ("Pos", "pos", False),
        ("a b", "ab", False),
        ("\ufb01ne", "fine", False),  # a ligature is only compatible, which NFC keeps apart
    ],
)
def test_spellings_of_one_name(one, other, same):
    assert names.is_same(one, other) is same
    assert names.are_same([one, "x"], [other, "x"]) is same
    assert (names.find(one, ["y", other]) == other) is same


def test_a_name_that_stands_twice_has_two_positions():
    assert names.positions(["a", DECOMPOSED, COMPOSED, "a "]) == {"a": [0, 3], COMPOSED: [1, 2]}


def test_joined_spellings_are_told_apart_in_the_note():
    (note,) = names.joined_note([COMPOSED, "tea", DECOMPOSED, COMPOSED], "class", "classes")
    assert note == f"1 class is written in several ways and taken as one ({COMPOSED}: 'cafe\\u0301', 'caf\\xe9')"
    assert names.joined_note(["a", "b", "a"], "class", "classes") == ()
    (note,) = names.joined_note([f"{letter}{end}" for letter in "abcde" for end in ("", " ")], "class", "classes")
    assert note.startswith("5 classes are written in several ways")
    assert note.endswith("; ...)")
