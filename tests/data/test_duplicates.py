"""Equal examples fall into one part of a split that vitzoo draws, and those under two labels are named."""

import json
import pathlib

import numpy as np
import pytest
from made_pictures import picture

from vitzoo.cli import main
from vitzoo.data import duplicates
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data

FRACTIONS = (0.1, 0.3, 0.5)


def contents(source) -> set:
    return {source[index].get("text") or source[index]["image"] for index in range(len(source))}


def parts(name: str, fraction: float):
    """The drawn parts of images or texts."""
    data = Data(name=name, validation_fraction=fraction, document="line")
    return [open_source(data, split) for split in ("train", "validation")]


def copies(root: pathlib.Path) -> str:
    """A folder in which every picture of a class stands twice."""
    for number in range(8):
        for name in ("a", "b"):
            for again in ("", "again/"):
                picture(root / name / f"{again}{number}.png", color=(number, ord(name), 0))
    return f"folder:{root}"


def listed_twice(root: pathlib.Path) -> str:
    """A CSV whose every file stands in two rows."""
    copies(root)
    rows = [f"{name}/{number}.png,{name}" for number in range(8) for name in "ab"]
    (root / "labels.csv").write_text("\n".join(["file,label", *rows, *rows]))
    return f"csv:{root / 'labels.csv'}"


def links(root: pathlib.Path) -> str:
    for number in range(8):
        for name in ("a", "b"):
            file = picture(root / name / f"{number}.png", color=(number, ord(name), 0))
            file.with_name(f"linked {number}.png").symlink_to(file)
    return f"folder:{root}"


def records(root: pathlib.Path) -> str:
    root.mkdir()
    lines = [json.dumps({"text": f"text {number}", "label": "ab"[number % 2]}) for number in range(16)]
    (root / "x.jsonl").write_text("\n".join([*lines, *(line.replace(": ", ":  ") for line in lines)]))
    return f"jsonl:{root / 'x.jsonl'}"


def lines(root: pathlib.Path) -> str:
    root.mkdir()
    (root / "x.txt").write_text("\n".join([f"line {number}" for number in range(16)] * 2))
    return f"text:{root / 'x.txt'}"


@pytest.mark.parametrize("make", [copies, listed_twice, links, records, lines])
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_equal_examples_fall_into_one_part(tmp_path, make, fraction):
    train, validation = parts(make(tmp_path / "set"), fraction)
    assert not contents(train) & contents(validation)
    assert len(train) + len(validation) == 32
    assert abs(len(validation) - 32 * fraction) <= 2.5  # of each class or of all, rounded, in whole pairs


@pytest.mark.parametrize("make", [copies, listed_twice, links, records])
def test_copies_are_counted_and_named_by_a_check(tmp_path, capsys, make):
    assert main(["data", "check", make(tmp_path / "set")]) == 0
    assert "16 of 32" in capsys.readouterr().out


def two_labels(root: pathlib.Path, kind: str) -> str:
    """Eight examples of two classes, of which one more of each is the same example."""
    files = [("a", n) for n in range(4)] + [("b", n + 4) for n in range(4)] + [("a", 9), ("b", 9)]
    if kind == "folder":
        for name, number in files:
            picture(root / name / f"{number}.png", color=(number, 0, 0))
        return f"folder:{root}"
    root.mkdir()
    if kind == "jsonl":
        rows = [json.dumps({"text": f"text {number}", "label": name}) for name, number in files]
    else:
        rows = ["file,label", *(f"{number}.png,{name}" for name, number in files)]
        for _, number in files:
            picture(root / f"{number}.png", color=(number, 0, 0))
    (root / f"x.{kind}").write_text("\n".join(rows))
    return f"{kind}:{root / f'x.{kind}'}"


NAMED = {"folder": ("a/9.png as a", "b/9.png as b"), "csv": ("9.png as a", "9.png as b"), "jsonl": (":9 as a", ":10")}


@pytest.mark.parametrize("kind", ["folder", "csv", "jsonl"])
def test_one_example_under_two_labels_is_named(tmp_path, capsys, kind):
    name = two_labels(tmp_path / "set", kind)
    assert main(["data", "check", name]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "different labels" in line)
    assert line.startswith("warning: 1 ")
    assert all(shown in line for shown in NAMED[kind])
    train, validation = parts(name, 0.25)
    assert not contents(train) & contents(validation)


def test_one_file_in_two_stated_splits_is_named(tmp_path, capsys):
    for split in ("train", "test"):
        picture(tmp_path / "set" / split / "a" / "1.png")
        picture(tmp_path / "set" / split / "b" / f"{split}.png", color=(len(split), 0, 0))
    assert main(["data", "check", f"folder:{tmp_path / 'set'}"]) == 0
    assert "warning: 1 file of a split is in another one too" in capsys.readouterr().out


def test_files_of_one_size_and_checksum_are_not_the_same(tmp_path):
    # any two contents of one length, when their checksums are said to agree
    paths = [tmp_path / str(number) for number in range(4)]
    for path, content in zip(paths, [b"one", b"two", b"one", b"four"], strict=True):
        path.write_bytes(content)
    units = duplicates.equal_files(list(map(str, paths)), [3, 3, 3, 4], [7, 7, 7, 7])
    assert units.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("units", "wanted", "held"),
    [
        ([0, 1, 2, 3], 2, [0, 1]),  # without copies, the first of the ranking
        ([0, 0, 0, 1], 1, [3]),  # a unit too large is passed over
        ([0, 0, 1, 1], 1, [0, 1]),  # all are too large: the smallest, the first of equals
        ([0, 0, 0, 0], 1, []),  # a single one can't be divided
        ([0, 1], 2, [0]),  # one stays
        ([0], 1, []),
    ],
)
def test_whole_units_are_held_out(units, wanted, held):
    assert duplicates.hold_out(range(len(units)), np.array(units), wanted).tolist() == held


def test_a_file_that_a_table_lists_again_is_no_copy_of_another(tmp_path, capsys):
    for number in range(4):
        picture(tmp_path / f"{number}.png", color=(60 * number, 0, 0))
    (tmp_path / "copy.png").write_bytes((tmp_path / "3.png").read_bytes())
    rows = ["0.png,a", "1.png,b", "0.png,a", "2.png,a", "3.png,b", "copy.png,b", "copy.png,b", "0.png,a"]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    assert main(["data", "check", f"csv:{tmp_path / 'labels.csv'}"]) == 0
    notes = capsys.readouterr().out.splitlines()
    assert "3 of 8 files are listed again (0.png, copy.png)" in notes
    assert "1 of 8 files is the same as others (3.png = copy.png)" in notes
