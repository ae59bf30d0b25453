"""Numbers as a person writes them, and what only Python takes for one."""

import pytest

from vitzoo import literals
from vitzoo.data.sources.labels import sorted_classes
from vitzoo.data.splits import parse
from vitzoo.errors import UserError
from vitzoo.parallel.mesh import parse_mesh
from vitzoo.planning import topology

ONLY_PYTHON = ["1_0", "٣", "１２", "²", "0x10", "1j", "", " ", "+", "1 0", "५"]


@pytest.mark.parametrize(("text", "value"), [("12", 12), ("-3", -3), ("+4", 4), (" 5 ", 5), ("007", 7), ("0", 0)])
def test_integers(text, value):
    assert literals.integer(text) == value
    assert literals.number(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("1e-3", 1e-3), ("-2.5E+2", -250.0)]
)
def test_decimals(text, value):
    assert literals.number(text) == value
    assert literals.integer(text) is None


@pytest.mark.parametrize("text", [*ONLY_PYTHON, "1_0.5", "٣.٥", "1e", "e5", ".", "0x1p3", "9" * 5000 + "x"])
def test_other_texts_are_no_numbers(text):
    assert literals.integer(text) is None
    assert literals.number(text) is None
    assert literals.counted(text) is None


def test_what_is_too_large_or_too_near_to_0():
    assert literals.number("1e999") == float("inf")
    assert literals.integer("9" * 5000) is None
    assert literals.number("0e-999") == 0.0
    for text in ("1e-400", "-0.001e-330", "4e-9999"):
        with pytest.raises(ValueError, match="too near to 0"):
            literals.number(text)


@pytest.mark.parametrize("text", [*ONLY_PYTHON, "-1", "9" * 5000])
def test_no_number_of_devices_or_of_examples_is_written_so(text):
    for read, written in (
        (parse_mesh, f"data:{text}"),
        (topology.parse, f"cpu:{text}"),
        (topology.parse, f"v5e:{text}x4"),
    ):
        with pytest.raises(UserError):
            read(written)
    if text not in ("1_0", "-1", "", " "):  # TFDS has underscores and counts from the end
        with pytest.raises(UserError):
            parse(f"train[:{text}]", {"train": 100})


def test_classes_that_are_numbers_in_other_digits_are_sorted_as_text():
    assert sorted_classes(["10", "9", "-1"]) == ("-1", "9", "10")
    assert sorted_classes(["9" * 5000, "10", "9"]) == ("10", "9", "9" * 5000)
