"""Checking data and looking at it."""

import pytest
from made_pictures import picture
from PIL import Image

from vitzoo.data.prepare import check, show
from vitzoo.errors import Refused


def test_a_check_counts_classes_and_names_what_cannot_be_read(photos):
    (photos / "cat" / "half.jpg").write_bytes(b"\xff\xd8\xff")
    found = check(f"folder:{photos}", validation_fraction=0.0)
    assert found["classes"] == ["cat", "dog"]
    assert found["notes"][0].startswith("1 of 31 files left out")
    train = found["splits"]["train"]
    assert train["class_counts"] == {"cat": 10, "dog": 20}
    assert (train["n"], train["smallest"], train["largest"], train["bad"]) == (30, [12, 10], [12, 29], [])


def test_a_check_reads_every_split_of_a_prepared_dataset():
    found = check("digits")
    assert {split: part["n"] for split, part in found["splits"].items()} == {"train": 1437, "test": 360}


def test_a_sheet_shows_examples_with_their_labels(photos, tmp_path):
    path = show(f"folder:{photos}", str(tmp_path / "sheet.png"), count=9)
    with Image.open(path) as sheet:
        assert sheet.size == (3 * 102 + 6, 3 * 116 + 6)
        assert sheet.getpixel((50, 50))[0] >= 200  # the first cat


def test_a_sheet_that_cannot_be_written_is_refused(photos, tmp_path):
    with pytest.raises(Refused, match=r"output = .*can't be written"):
        show(f"folder:{photos}", str(tmp_path / "none" / "sheet.png"))
    picture(tmp_path / "x.png")
    with pytest.raises(Refused, match=r"output = .*can't be written"):
        show(f"folder:{photos}", str(tmp_path / "sheet.unknown"))
