"""Files that commands write are refused before the work, not after it."""

import pytest

from vitzoo.errors import Failed, Refused
from vitzoo.outputs import checked_file, checked_folder, write_whole


def test_a_file_that_could_not_be_written_at_the_end_is_refused_at_the_start(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("")
    for path, why in {
        tmp_path / "x.txt": "must end in .csv or .jsonl",
        tmp_path / "folder.csv": "is a folder",
        tmp_path / "missing" / "x.csv": "doesn't exist",
        tmp_path / "file" / "x.csv": "doesn't exist",
    }.items():
        with pytest.raises(Refused, match=f"--output = .*{why}"):
            checked_file("--output", path, (".csv", ".jsonl"))
    assert checked_file("--output", tmp_path / "x.CSV", (".csv",)) == tmp_path / "x.CSV"


def test_a_folder_inside_a_file_is_refused_and_a_new_one_is_not_made_yet(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Refused, match=f"--output = {path}: {tmp_path}/file is not a folder"):
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

    with pytest.raises(Failed, match=r"x\.csv can't be written: No space left on device"):
        write_whole(file, fail)
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
