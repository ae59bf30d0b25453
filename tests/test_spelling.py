"""Spellings of one name: composed or decomposed (Unicode's normal forms), with or without spaces; and misspelt ones."""

import pytest

from vitzoo import spelling
from vitzoo.spelling import closest

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
    assert (spelling.normalise(one) == spelling.normalise(other)) is same
    assert spelling.are_same([one, "x"], [other, "x"]) is same
    assert (spelling.find(one, ["y", other]) == other) is same


def test_a_name_that_stands_twice_has_two_positions():
    assert spelling.positions(["a", DECOMPOSED, COMPOSED, "a "]) == {"a": [0, 3], COMPOSED: [1, 2]}


def test_joined_spellings_are_told_apart_in_the_note():
    (note,) = spelling.joined_note([COMPOSED, "tea", DECOMPOSED, COMPOSED], "class", "classes")
    assert note == f"1 class is written in several ways and taken as one ({COMPOSED}: 'cafe\\u0301', 'caf\\xe9')"
    assert spelling.joined_note(["a", "b", "a"], "class", "classes") == ()
    (note,) = spelling.joined_note([f"{letter}{end}" for letter in "abcde" for end in ("", " ")], "class", "classes")
    assert note.startswith("5 classes are written in several ways")
    assert note.endswith("; ...)")


KNOWN = [
    *(
        "seed",
        "total_steps",
        "total_epochs",
        "min_steps",
        "init_from",
        "accumulate",
        "data",
        "model",
        "model.num_heads",
    ),
    *("data.name", "data.batch_size", "data.dir", "data.workers", "inputs.image.resize", "objective.label_smoothing"),
    *("optimizer.learning_rate", "optimizer.weight_decay", "schedule.warmup_steps", "checkpoint.keep"),
    *("checkpoint.every_steps", "log.every_steps", "evaluate.EVALUATOR.every_steps"),
]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--batch-size", "data.batch_size"),
        ("BatchSize", "data.batch_size"),
        ("data_dir", "data.dir"),
        ("--lr", "optimizer.learning_rate"),
        ("wd", "optimizer.weight_decay"),
        ("learnign_rate", "optimizer.learning_rate"),
        ("epochs", "total_epochs"),
        ("num-epochs", "total_epochs"),
        ("max_steps", "total_steps"),
        ("steps", "total_steps"),
        ("warmup", "schedule.warmup_steps"),
        ("num_workers", "data.workers"),
        ("heads", "model.num_heads"),
        ("dataset", "data"),
        ("log_every", "log.every_steps"),
        ("eval-every", "evaluate.EVALUATOR.every_steps"),
        ("gradient_accumulation_steps", "accumulate"),
        ("init", "init_from"),
        ("resume", None),  # no word for what resumes by itself; `resize` is another matter
        ("checkpoint", None),
        ("output_dir", None),
        ("", None),
    ],
)
def test_a_name_is_taken_for_the_one_in_another_spelling_by_initials_by_a_slip_or_by_a_word(typed, meant):
    assert closest(typed, KNOWN) == meant


@pytest.mark.parametrize("blank", ["", " ", "\u00a0", "\u200b", "\n", "\u202e "])
def test_a_name_that_shows_nothing_is_blank(blank):
    assert spelling.is_blank(blank)
    assert not spelling.is_blank(f"{blank}a")


@pytest.mark.parametrize("alike", [("crane", "crane"), ("crane", "crane "), ("\u00e9toile", "e\u0301toile")])
def test_names_that_several_bear_are_told_with_their_places(alike):
    assert spelling.shared_note(["dog", *alike], "classes") == (f"2 classes share a name ({alike[0]}: 1, 2)",)
    assert spelling.shared_note(["dog", "Dog", "do g"], "classes") == ()
    note = spelling.shared_note(["a"] * 5 + ["b", "c", "d"] * 2, "classes")
    assert note == ("11 classes share a name (a: 0, 1, 2, ...; b: 5, 8; c: 6, 9; ...)",)
