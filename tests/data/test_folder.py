"""A folder of photos is read whole or refused by name."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from made_pictures import picture
from PIL import Image

from vitzoo.cli import main
from vitzoo.data.open import open_dataset, open_source
from vitzoo.data.settings import Data
from vitzoo.errors import UserError


def folder(path: pathlib.Path, **settings) -> Data:
    return Data(name=f"folder:{path}", **settings)


def names(source) -> list[str]:
    return [pathlib.Path(path).name for path in source.info.files]


def test_classes_are_the_sub_folders_and_a_tenth_of_each_is_validation(photos):
    train, validation = (open_source(folder(photos), split) for split in ("train", "validation"))
    assert train.info.classes == ("cat", "dog")
    assert train.info.class_counts == (9, 18)
    assert validation.info.class_counts == (1, 2)
    assert not set(train.info.files) & set(validation.info.files)
    assert sorted([*train.ids, *validation.ids]) == list(range(30))


def test_a_photo_more_changes_the_validation_part_by_one_at_most(photos):
    before = set(open_source(folder(photos, validation_fraction=0.3), "validation").info.files)
    picture(photos / "cat" / "new.png")
    after = set(open_source(folder(photos, validation_fraction=0.3), "validation").info.files)
    assert len(before) == 9
    assert len(before - after) <= 1


def test_the_fraction_is_of_each_class_at_least_one_and_never_all(photos):
    picture(photos / "rare" / "only.png")
    for number in (1, 2):
        picture(photos / "few" / f"{number}.png", color=(0, number, 0))
    data = folder(photos, validation_fraction=0.2)
    assert open_source(data, "validation").info.class_counts == (2, 4, 1, 0)
    assert open_source(data, "train").info.class_counts == (8, 16, 1, 1)


def test_a_slice_that_cuts_classes_off_says_so(photos):
    data = folder(photos, validation_fraction=0.0)  # ten cats, then twenty dogs
    (note,) = open_source(data, "train[:10]").info.notes
    assert note.startswith("warning: train[:10] has no example of 1 of the 2 classes (dog)")
    assert "(cat)" in open_source(data, "train[50%:]").info.notes[0]
    assert [open_source(data, split).info.notes for split in ("train[:11]", "train", "all")] == [(), (), ()]


def test_without_a_fraction_all_is_train(photos):
    assert dict(open_dataset(folder(photos, validation_fraction=0.0)).counts()) == {"train": 30}


@pytest.mark.parametrize("validation", ["val", "Validation", "valid", "dev"])
def test_sub_folders_for_parts_are_recognised(tmp_path, validation):
    for part, count in (("train", 4), (validation, 2), ("test", 3)):
        for number in range(count):
            (
                picture(tmp_path / "set" / part / "a" / f"{number}.png"),
                picture(tmp_path / "set" / part / "b" / f"{number}.png"),
            )
    assert dict(open_dataset(folder(tmp_path / "set")).counts()) == {"train": 8, "validation": 4, "test": 6}
    assert open_source(folder(tmp_path / "set"), "train[:50%]+test").info.n == 10


def test_classes_called_train_and_test_beside_others_are_classes(tmp_path):
    for name in ("train", "car", "test"):
        picture(tmp_path / "set" / name / "1.png")
    assert open_source(folder(tmp_path / "set"), "train").info.classes == ("car", "test", "train")


def test_numbers_as_class_names_are_in_their_own_order(tmp_path):
    for name in ("10", "9", "1"):
        picture(tmp_path / "set" / name / "1.png")
    assert open_source(folder(tmp_path / "set")).info.classes == ("1", "9", "10")


def test_odd_files_are_read_right_or_left_out_by_name(tmp_path, capsys):
    root = tmp_path / "set"
    for number, name in enumerate(("a", "b")):
        picture(root / name / "plain.png", color=(0, 0, number))
    odd = root / "a"
    picture(odd / "grey.png", color=9, mode="L")
    picture(odd / "clear.png", color=(0, 255, 0, 255), mode="RGBA")
    picture(odd / "print.jpg", color=(0, 255, 255, 0), mode="CMYK", quality=100)
    picture(odd / "png.jpg", format="PNG")
    picture(odd / "moving.gif")
    Image.new("P", (8, 8)).save(odd / "palette.png", transparency=0)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 4)).save(odd / "turned.jpg", exif=exif)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    noise.save(odd / "whole.jpg")
    (odd / "half.jpg").write_bytes((odd / "whole.jpg").read_bytes()[:3000])
    (odd / "empty.png").touch()
    (odd / "phone.heic").write_bytes(b"not of a kind that is known")
    (odd / "notes.txt").write_text("no image")
    (odd / ".DS_Store").write_bytes(b"\0\1")

    with pytest.raises(
        UserError, match=r"3 of 13 files can't be read: .*empty.png \(empty: 0 bytes\).*half.jpg.*phone.heic"
    ):
        open_source(folder(root))

    source = open_source(folder(root, bad_files="skip", validation_fraction=0.0))
    assert source.info.n == 10
    assert source.info.channels == 3
    left_out, ignored = source.info.notes
    assert left_out == "3 of 13 files left out, can't be read"
    assert ignored == "ignored 1 file that is no image: a/notes.txt"
    open_source(folder(root, bad_files="skip", validation_fraction=0.0))  # a second reader, and no second warning
    said = capsys.readouterr().err
    assert [said.count(path) for path in ("half.jpg", "empty.png", "phone.heic", ".DS_Store")] == [1, 1, 1, 0]


def test_grey_photos_have_one_channel_and_one_size_is_known(tmp_path):
    for name in "ab":
        picture(tmp_path / "set" / name / "1.png", (8, 6), 7, "L")
    info = open_source(folder(tmp_path / "set")).info
    assert info.channels == 1
    assert info.image_shape == (6, 8)


def test_files_at_any_depth_and_behind_links_are_found_once(tmp_path):
    picture(tmp_path / "elsewhere" / "3.png")
    root = tmp_path / "set"
    picture(root / "a" / "deep" / "er" / "1.png"), picture(root / "b" / "2.png")
    (root / "a" / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "deep" / "round").symlink_to(root / "a")
    assert sorted(names(open_source(folder(root, validation_fraction=0.0)))) == ["1.png", "2.png", "3.png"]


def test_a_class_that_only_validation_has_is_refused(tmp_path):
    for part, names_ in (("train", "ab"), ("val", "abz")):
        for name in names_:
            picture(tmp_path / "set" / part / name / "1.png")
    with pytest.raises(UserError, match=r"validation has labels that train lacks: z \(as val/z/1.png\)"):
        open_source(folder(tmp_path / "set"))


def test_photos_in_no_class_folder_are_refused_with_the_layout(tmp_path):
    picture(tmp_path / "set" / "1.jpg")
    with pytest.raises(UserError, match=r"1.jpg is in no class folder; images belong in one sub-folder for each class"):
        open_source(folder(tmp_path / "set"))


def test_a_class_folder_without_an_image_is_named(photos):
    (photos / "bird").mkdir()
    (photos / "bird" / "notes.txt").touch()
    with pytest.raises(UserError, match=r"class folders without an image: .*bird \(only bird/notes.txt\); remove"):
        open_source(folder(photos))
    assert open_source(folder(photos, bad_files="skip")).info.classes == ("cat", "dog")


@pytest.mark.parametrize("path", ["nowhere", "a_file"])
def test_what_is_no_folder_is_refused(tmp_path, path):
    (tmp_path / "a_file").touch()
    with pytest.raises(UserError, match="is not a folder"):
        open_source(folder(tmp_path / path))


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(UserError, match="no images found; put them in one sub-folder for each class"):
        open_source(folder(tmp_path))


def test_files_are_decoded_once_and_again_only_when_they_change(photos, monkeypatch):
    from vitzoo.data.sources import index

    looked, examine = [], index.examine
    monkeypatch.setattr(index, "examine", lambda path: looked.append(path) or examine(path))
    open_source(folder(photos))
    assert len(looked) == 30
    open_source(folder(photos))
    assert len(looked) == 30
    picture(photos / "cat" / "00.png", (5, 5))
    open_source(folder(photos))
    assert len(looked) == 31
    assert looked[-1].endswith("cat/00.png")


def test_two_lists_of_files_in_one_folder_keep_each_others_facts(photos, monkeypatch, tmp_path):
    from vitzoo.data.sources import index

    looked, examine = [], index.examine
    monkeypatch.setattr(index, "examine", lambda path: looked.append(path) or examine(path))
    cats, dogs = ([str(photos / name / f"{n:02}.png") for n in range(10)] for name in ("cat", "dog"))
    for paths in ([*cats, dogs[0]], [*dogs, cats[0]], [*cats, dogs[0]]):
        index.index_files(paths, "some")
    assert len(looked) == 20


def test_an_unwritable_cache_is_done_without(photos, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("VITZOO_CACHE", str(tmp_path / "file" / "cache"))
    assert open_source(folder(photos), "all").info.n == 30


def test_nothing_is_written_into_the_users_folder(photos):
    before = sorted(str(path) for path in photos.rglob("*"))
    open_source(folder(photos))
    assert sorted(str(path) for path in photos.rglob("*")) == before


def test_the_fingerprint_tells_data_apart_and_not_where_it_lies(photos, tmp_path):
    first = open_source(folder(photos)).info.fingerprint
    moved = shutil.copytree(photos, tmp_path / "moved")
    assert open_source(folder(moved)).info.fingerprint == first
    changed = next(path for path in open_source(folder(moved)).info.files)
    picture(pathlib.Path(changed), (3, 3))
    assert open_source(folder(moved)).info.fingerprint != first


def test_folders_are_read_without_tensorflow_datasets(photos):
    code = (
        "import sys; from vitzoo.data.open import open_source; from vitzoo.data.settings import Data;"
        f"print(open_source(Data(name='folder:{photos}')).info.n, 'tensorflow_datasets' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, check=True)
    assert ran.stdout.split() == ["27", "False"]


@pytest.mark.parametrize("name", [b"\xff\xfe", b"caf\xe9", b"train/\x80cat"])
@pytest.mark.parametrize("command", [["data", "check"], ["data", "prepare"], ["data", "show"], ["train"]], ids="-".join)
def test_a_class_whose_name_is_not_utf8_is_refused_by_name(command, name, tmp_path, capsys):
    root = tmp_path / "photos"
    for folder in (os.fsdecode(name), "train/b" if b"/" in name else "b"):
        for number in range(2):
            picture(root / folder / f"{number}.png", (8, 8), (90 * number, 0, 0))
    data = ["--config", "quickstart", "--workdir", f"{tmp_path}/w", f"--config.data.name=folder:{root}"]
    given = data if command == ["train"] else [f"folder:{root}"]
    assert main([*command, *given]) == 2
    said = capsys.readouterr().err
    assert ascii(os.fsdecode(name).rpartition("/")[2]) in said
    assert "a byte that isn't UTF-8; rename its folder" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("place", ["fox", "fox.v2", "train/fox", "cat/9.png", "cat/more"])
def test_a_link_that_leads_nowhere_is_named_as_what_cannot_be_read(place, tmp_path, capsys):
    root = tmp_path / "photos"
    parent = "train/" if place.startswith("train") else ""
    for name in ("cat", "dog"):
        for number in range(2):
            picture(root / f"{parent}{name}" / f"{number}.png", (8, 8), (90 * number, len(name) + ord(name[0]), 0))
    (root / place).symlink_to(tmp_path / "unmounted")
    assert main(["data", "check", f"folder:{root}"]) == 1
    assert f"{root / place} (no such file)" in capsys.readouterr().out
    with pytest.raises(UserError, match=f"1 of 5 files can't be read: {root / place} "):
        open_dataset(folder(root))
    dataset = open_dataset(folder(root, bad_files="skip"))
    assert sum(dataset.counts().values()) == 4
    assert "1 of 5 files left out, can't be read" in dataset.notes


@pytest.mark.parametrize("names", [("cat", "dog"), ("a", "b", "c"), ("1", "2")])
def test_data_of_one_image_a_class_are_checked_though_validation_would_be_empty(names, tmp_path, capsys):
    root = tmp_path / "photos"
    for number, name in enumerate(names):
        picture(root / name / "1.png", (8, 8), (50 * number, 0, 0))
    (root / names[0] / "2.png").write_bytes(b"")
    rows = "".join(f"photos/{name}/1.png,{name}\n" for name in names)
    (tmp_path / "labels.csv").write_text(f"file,label\n{rows}gone.png,{names[0]}\n")
    for data, bad in ((f"folder:{root}", root / names[0] / "2.png"), (f"csv:{tmp_path}/labels.csv", "gone.png")):
        assert main(["data", "check", data, "--json"]) == 1
        out = capsys.readouterr().out
        found = json.loads(out.splitlines()[-1])
        assert found["splits"]["train"]["class_counts"] == dict.fromkeys(names, 1)
        assert list(found["splits"]) == ["train"]
        assert "warning: validation would be empty" in out.splitlines()
        assert str(bad) in found["unreadable"][0]


def test_an_empty_path_is_not_the_current_folder():
    with pytest.raises(UserError, match="names no folder"):
        open_source(Data(name="folder:"))
