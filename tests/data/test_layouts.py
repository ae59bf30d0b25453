"""What a folder's first level means, and where links lead: classes are never called after splits by accident, no
picture is read twice under two names.
"""

import json
import pathlib

import pytest
from made_pictures import picture

from vitzoo.cli import main


def lay(root: pathlib.Path, *files: str) -> pathlib.Path:
    """A folder of these pictures, each of its own colour; what ends with .txt is text."""
    for number, name in enumerate(files):
        if name.endswith(".txt"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("text")
        else:
            picture(root / name, color=(number, 255 - number, 7))
    return root


def checked(root: pathlib.Path, capsys, code: int = 0) -> dict:
    """What `vitzoo data check` finds, without a validation split of its own."""
    assert main(["data", "check", f"folder:{root}", "--config.data.validation_fraction=0", "--json"]) == code
    return json.loads(capsys.readouterr().out.splitlines()[-1])


SPLITS = ("train/cat/1.png", "train/dog/2.png", "val/cat/3.png", "val/dog/4.png")


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        (("test/5.png", "test/6.png"), "left out test, without class folders"),  # an unlabelled test part
        (("annotations/boxes.txt",), "left out annotations, beside train, val"),
        (("holdout/cat/5.png", "holdout/dog/6.png"), "left out holdout, beside train, val"),
        (("extra/5.png",), "left out extra, beside train, val"),
        (("Test/notes.txt",), "left out Test, without class folders"),
        (("sample.png",), "left out 1 image beside train, val"),
    ],
)
def test_splits_stay_splits_whatever_stands_beside_them(tmp_path, capsys, beside, named):
    found = checked(lay(tmp_path / "set", *SPLITS, *beside), capsys)
    assert found["classes"] == ["cat", "dog"]
    assert {split: part["class_counts"] for split, part in found["splits"].items()} == {
        "train": {"cat": 1, "dog": 1},
        "validation": {"cat": 1, "dog": 1},
    }
    assert any(named in note for note in found["notes"])


@pytest.mark.parametrize("name", ["train", "TRAIN", "val", "Valid", "validation", "dev", "Test"])
def test_one_folder_with_a_splits_name_that_holds_class_folders_is_a_split(tmp_path, capsys, name):
    found = checked(lay(tmp_path / "set", f"{name}/cat/1.png", f"{name}/dog/2.png", "other/3.png"), capsys)
    assert found["classes"] == ["cat", "dog"]
    assert len(found["splits"]) == 1


@pytest.mark.parametrize("name", ["train", "test", "Dev"])
def test_a_flat_folder_with_a_splits_name_is_a_class_among_flat_ones(tmp_path, capsys, name):
    found = checked(lay(tmp_path / "set", f"{name}/1.png", "bus/2.png", "car/3.png"), capsys)
    assert found["classes"] == sorted([name, "bus", "car"])
    assert any(f"{name}, called as splits are, taken for classes" in note for note in found["notes"])


@pytest.mark.parametrize("name", ["train", "test", "Dev"])
def test_a_flat_folder_with_a_splits_name_is_no_class_beside_deeper_ones(tmp_path, capsys, name):
    found = checked(lay(tmp_path / "set", f"{name}/1.png", "cat/a/2.png", "dog/b/3.png"), capsys)
    assert found["classes"] == ["cat", "dog"]
    assert any(f"left out {name}, called as splits are" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (("train/1.png", "val/2.png"), "no class folders in train, val"),
        (("train/1.png", "test/2.png", "labels/a.txt"), "no class folders in test, train"),
        ((*SPLITS, "validation/cat/5.png"), "val and validation are both validation"),
        ((*SPLITS, "Train/cat/5.png"), "Train and train are both train"),
        ((*SPLITS, "val/5.png"), "val/5.png is in no class folder"),
    ],
)
def test_what_is_no_layout_is_refused_by_name(tmp_path, capsys, files, named):
    assert main(["data", "check", f"folder:{lay(tmp_path / 'set', *files)}"]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("skip", [[], ["--bad-files", "skip"]], ids=["stop", "skip"])
@pytest.mark.parametrize(
    ("files", "named"),
    [
        (("imgs/train/a/1.png", "imgs/train/b/2.png", "imgs/val/a/3.png"), ("imgs/train, imgs/val:", "set/imgs;")),
        (("images/train/a/1.png", "images/val/a/2.png", "labels/train/a.txt"), ("images/train,", "set/images;")),
        (("x/y/Training/a/1.png", "x/y/dev/a/2.png"), ("x/y/Training, x/y/dev:", "set/x/y;")),
        (("cat/train/1.png", "cat/val/2.png", "dog/train/3.png"), ("cat/train, cat/val, dog/train:",)),
        (("cat/1.png", "dog/2.png", "dog/test/3.png"), ("dog/test:",)),
        (("cat/odd/testing/1.png", "dog/2.png"), ("cat/odd/testing:",)),
        ((*SPLITS, "train/cat/val/5.png"), ("train/cat/val:",)),
        (("test/1.png", "imgs/train/a/2.png"), ("imgs/train:", "set/imgs;")),
    ],
)
def test_a_folder_with_a_splits_name_within_a_class_is_refused_with_the_remedy(tmp_path, capsys, files, named, skip):
    assert main(["data", "check", f"folder:{lay(tmp_path / 'set', *files)}", *skip]) == 2
    line = capsys.readouterr().err
    assert "splits come before classes" in line
    assert all(part in line for part in named)
    assert ("--config.data.name=folder:" in line) == (len(named) > 1)


def test_a_folder_that_says_its_split_once_more_is_no_other(tmp_path, capsys):
    found = checked(lay(tmp_path / "set", *SPLITS, "train/cat/train/5.png", "val/dog/Dev/6.png"), capsys)
    assert {split: part["n"] for split, part in found["splits"].items()} == {"train": 3, "validation": 3}


def linked(root: pathlib.Path, links: dict[str, str]) -> pathlib.Path:
    for name, target in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(root / target if not target.startswith("/") else target)
    return root


@pytest.mark.parametrize(
    ("links", "left_out"),
    [
        ({"set": "."}, "set → "),  # a folder in itself, which would be a third class
        ({"normal/loop": "."}, "normal/loop → "),  # broken things as normal ones
        ({"normal/deep/loop": "normal"}, "normal/deep/loop → "),
        ({"normal/up": ".."}, "normal/up → "),
        ({"aaa": "broken"}, "aaa → "),  # a class again under another name, whichever is read first
        ({"normal/more": "broken"}, "normal/more → "),
    ],
)
def test_a_link_to_a_folder_above_or_to_one_that_is_read_is_named_and_left_out(tmp_path, capsys, links, left_out):
    lay(tmp_path, "beside/9.png")
    root = linked(lay(tmp_path / "set", "broken/1.png", "broken/2.png", "normal/3.png"), links)
    found = checked(root, capsys)
    assert found["splits"]["train"]["class_counts"] == {"broken": 2, "normal": 1}
    (note,) = (note for note in found["notes"] if "not followed" in note)
    assert left_out in note


@pytest.mark.parametrize("name", ["aval", "val", "dev"])
def test_a_split_that_links_to_another_is_that_one_once(tmp_path, capsys, name):
    root = linked(lay(tmp_path / "set", "train/cat/1.png", "train/dog/2.png"), {name: "train"})
    found = checked(root, capsys)
    assert {split: part["n"] for split, part in found["splits"].items()} == {"train": 2}


def test_links_to_other_places_are_followed(tmp_path, capsys):
    lay(tmp_path / "store", "cats/1.png", "cats/deep/2.png", "dogs/3.png")
    pool = {"train/cat": str(tmp_path / "store/cats"), "train/dog": str(tmp_path / "store/dogs")}
    root = linked(lay(tmp_path / "set", "images/4.png"), pool | {"val/cat": "images"})
    found = checked(root, capsys)
    assert {split: part["class_counts"] for split, part in found["splits"].items()} == {
        "train": {"cat": 2, "dog": 1},
        "validation": {"cat": 1, "dog": 0},
    }


def test_a_dry_run_shows_the_classes_and_their_counts(tmp_path, capsys):
    root = lay(tmp_path / "set", *SPLITS, "train/cat/5.png", "annotations/boxes.txt")
    flags = [f"--config.data.name=folder:{root}", "--config.evaluate.test.split=validation", "--config.total_steps=1"]
    assert main(["train", "--config", "quickstart", *flags, "--dry-run", "--json"]) == 0
    out = capsys.readouterr().out
    result = json.loads(out.splitlines()[-1])
    assert result["data"]["train"]["class_counts"] == {"cat": 2, "dog": 1}
    assert result["data"]["test"]["class_counts"] == {"cat": 1, "dog": 1}
    (row,) = (line.split() for line in out.splitlines() if line.startswith("cat "))
    assert row == ["cat", "2", "1"]
    assert "left out annotations" in out
