"""Files that commands write are refused before the work, not after it."""

import pytest

from vitzoo.errors import RunError, UserError
from vitzoo.outputs import checked_file, checked_folder, checked_new_folder, whole_folder, write_whole


def test_a_file_that_could_not_be_written_at_the_end_is_refused_at_the_start(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("")
    for path, why in {
        tmp_path / "x.txt": "must end in .csv or .jsonl",
        tmp_path / "folder.csv": "is a folder",
        tmp_path / "missing" / "x.csv": "doesn't exist",
        tmp_path / "file" / "x.csv": "doesn't exist",
    }.items():
        with pytest.raises(UserError, match=f"--output = .*{why}"):
            checked_file("--output", path, (".csv", ".jsonl"))
    assert checked_file("--output", tmp_path / "x.CSV", (".csv",)) == tmp_path / "x.CSV"


def test_a_folder_inside_a_file_is_refused_and_a_new_one_is_not_made_yet(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=f"--output = {path}: {tmp_path}/file is not a folder"):
            checked_folder("--output", path)
    assert checked_folder("--output", tmp_path / "new" / "below") == tmp_path / "new" / "below"
    assert not (tmp_path / "new").exists()


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path):
    file = tmp_path / "x.csv"
    assert write_whole(file, lambda partial: partial.write_text("old"))
    assert not write_whole(file, lambda partial: False)

    def fail(partial):
        partial.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match=r"x\.csv can't be written: No space left on device"):
        write_whole(file, fail)
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_whatever_goes_wrong_in_writing_a_file_is_one_line_and_leaves_nothing(tmp_path):
    def fail(partial, error):
        partial.write_text("half")
        raise error

    for error, raised in {
        OSError(28, "No space left on device"): RunError,
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"): RunError,
        KeyboardInterrupt(): KeyboardInterrupt,
    }.items():
        with pytest.raises(raised) as caught:
            write_whole(tmp_path / "deep" / "x.csv", lambda partial, error=error: fail(partial, error))
        assert "\n" not in str(caught.value)
        assert [path.name for path in tmp_path.rglob("*")] == ["deep"]


def test_what_a_link_leads_to_is_replaced_and_not_the_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("there/x.csv")
    write_whole(checked_file("--output", tmp_path / "link.csv", [".csv"]), lambda partial: partial.write_text("new"))
    assert (tmp_path / "there" / "x.csv").read_text() == "new"
    assert (tmp_path / "link.csv").is_symlink()


def test_the_longest_names_can_be_written(tmp_path):
    name = "x" * 251 + ".csv"
    assert write_whole(checked_file("--output", tmp_path / name, [".csv"]), lambda partial: partial.write_text("a"))
    with whole_folder(checked_new_folder("--output", tmp_path / ("y" * 255))) as folder:
        (folder / "a").write_text("a")
    assert (tmp_path / ("y" * 255) / "a").read_text() == "a"


def fill(target, error):
    with whole_folder(target) as folder:
        (folder / "half").write_text("half")
        raise error


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_a_folder_is_filled_whole_or_stays_as_it_was(there, tmp_path):
    target = tmp_path / "out" if there else tmp_path / "deep" / "out"
    if there:
        target.mkdir()
    before = sorted(tmp_path.rglob("*"))
    for error, raised in ((OSError(28, "No space left"), RunError), (KeyboardInterrupt(), KeyboardInterrupt)):
        with pytest.raises(raised):
            fill(target, error)
        assert sorted(tmp_path.rglob("*")) == before
    with whole_folder(target) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "x").write_text("x")
    assert [path.relative_to(target).as_posix() for path in sorted(target.rglob("*"))] == ["sub", "sub/x"]
    assert [path.name for path in target.parent.iterdir()] == ["out"]
    with pytest.raises(UserError, match="is there already and not empty; give another folder"):
        checked_new_folder("--output", target)
