"""What a killed command leaves half written is removed and said; what a living one is writing stays."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from vitzoo.errors import RunError, UserError
from vitzoo.outputs import checked_file, checked_folder, checked_new_folder, whole_folder, write_whole
from vitzoo.staging import remove_leftovers, staged

HALF_WRITTEN = """
import pathlib, sys, time
from vitzoo.outputs import whole_folder, write_whole
from vitzoo.staging import staged

def stop(path):
    if path.suffix:
        path.write_text("half")
    else:
        (path / "big").write_text("half")
    print("begun", flush=True)
    time.sleep(60)

kind, target = sys.argv[1], pathlib.Path(sys.argv[2])
if kind == "file":
    write_whole(target, stop)
elif kind == "folder":
    with whole_folder(target) as folder:
        stop(folder)
"""


@contextlib.contextmanager
def writing(kind, target):
    """A process in the middle of writing."""
    with subprocess.Popen([sys.executable, "-c", HALF_WRITTEN, kind, str(target)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        try:
            yield process
        finally:
            process.kill()


CASES = {
    "a new folder": ("folder", "out", lambda target: checked_new_folder("--output", target)),
    "an empty folder": ("folder", "there", lambda target: checked_new_folder("--output", target)),
    "a checkpoint": ("folder", "out", lambda target: checked_new_folder("--output", target, checkpoint=True)),
    "a file": ("file", "x.csv", lambda target: checked_file("--output", target, (".csv",))),
    "a folder's file": ("file", "x.csv", lambda target: checked_folder("--output", target.parent)),
    "what a link leads to": ("folder", "link", lambda target: checked_new_folder("--output", target)),
}


@pytest.mark.parametrize("case", CASES)
def test_leftovers_of_a_killed_command_are_removed_and_said_and_block_nothing(case, tmp_path, capsys):
    kind, name, check = CASES[case]
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    with writing(kind, tmp_path / name) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (left,) = [path for path in tmp_path.rglob(".vitzoo-*") if path.is_dir()]
    check(tmp_path / name)
    assert not left.exists()
    line = capsys.readouterr().err
    assert line.startswith("removed  ")
    assert left.name in line
    assert line.endswith(", left by a command that was killed\n")


def test_what_a_living_command_is_writing_stays(tmp_path, capsys):
    (tmp_path / "there").mkdir()
    with contextlib.ExitStack() as living:
        for kind, name in (("folder", "out"), ("folder", "there"), ("file", "x.csv")):
            living.enter_context(writing(kind, tmp_path / name))
        held = sorted(path for path in tmp_path.rglob(".vitzoo-*") if path.is_dir())
        assert len(held) == 3
        checked_file("--output", tmp_path / "x.csv", (".csv",))
        for name in ("out", "there"):
            with pytest.raises(UserError, match="is being filled by another command; wait for it"):
                checked_new_folder("--output", tmp_path / name)
        assert sorted(path for path in tmp_path.rglob(".vitzoo-*") if path.is_dir()) == held
        assert capsys.readouterr().err == ""
    with staged(tmp_path) as own:  # this process lives too
        remove_leftovers(tmp_path)
        assert own.is_dir()


def test_leftovers_without_a_lock_are_of_an_earlier_version_and_go_too(tmp_path, capsys):
    for name, content in {".vitzoo-abcd_123": "folder", ".vitzoo-prepare-abcd_123": "imagenet"}.items():
        (tmp_path / name / content).mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().err.count("removed") == 2


def test_what_only_looks_like_a_leftover_is_the_users(tmp_path, capsys):
    (tmp_path / ".vitzoo-mine" / "folder").mkdir(parents=True)
    (tmp_path / ".vitzoo-abcd_123" / "photos").mkdir(parents=True)
    (tmp_path / ".vitzoo-abcd_124").write_text("a file")
    (tmp_path / ".vitzoo-abcd_125").symlink_to(".vitzoo-mine")
    before = sorted(tmp_path.rglob("*"))
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert capsys.readouterr().err == ""


def test_a_folder_that_is_moved_while_it_is_written_is_a_failure(tmp_path):
    def moved(path):
        path.write_text("x")
        os.rename(path.parent, tmp_path / "away")

    with pytest.raises(RunError, match=r"x\.csv can't be written"):
        write_whole(tmp_path / "x.csv", moved)
    assert not (tmp_path / "x.csv").exists()
    for what in ("deleted", "moved"):
        place = tmp_path / what / "deep"
        place.mkdir(parents=True)
        with pytest.raises(RunError, match=r"out can't be written: the folder was moved or deleted meanwhile"):
            fill_moved(place / "out", what == "deleted")
        assert not (place / "out").exists()


def fill_moved(target, made_again):
    with whole_folder(target) as folder:
        (folder / "x").write_text("x")
        os.rename(target.parent.parent, f"{target.parent.parent} away")
        if made_again:  # as Orbax makes a folder that is gone
            folder.mkdir(parents=True)
