"""Who may use a run folder, and what a look at one finds without a trace."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vitzoo.errors import RunError, UserError
from vitzoo.training import lock

HOLD = """
import sys, time
from pathlib import Path
from vitzoo.training.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def enter(workdir):
    with lock.locked(workdir):
        return True


def look(workdir):
    lock.check_usable(workdir)
    return True


def test_a_folder_in_use_by_another_process_is_refused_and_free_once_that_is_killed(tmp_path):
    workdir = tmp_path / "run"
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(workdir)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        for way in (enter, look):
            with pytest.raises(UserError, match=rf"is in use by process {other.pid} on .* since "):
                way(workdir)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert look(workdir)
    assert enter(workdir)


def test_a_folder_in_use_by_this_process_is_refused_too(tmp_path):
    with lock.locked(tmp_path):
        for way in (enter, look):
            with pytest.raises(UserError, match="in use by this very process"):
                way(tmp_path)
    assert enter(tmp_path)


def test_a_folder_that_holds_something_else_is_refused_untouched(tmp_path):
    (tmp_path / "thesis.doc").write_text("")
    for way in (enter, look):
        with pytest.raises(UserError, match=r"holds thesis\.doc and no config\.json"):
            way(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.doc"]


def test_a_log_that_the_shell_already_writes_there_is_no_obstacle(tmp_path):
    (tmp_path / "slurm-17.out").write_text("")
    assert enter(tmp_path)


def test_a_file_and_a_place_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for way in (enter, look):
        with pytest.raises(UserError, match="is a file"):
            way(tmp_path / "file")
        with pytest.raises(UserError, match="can't be written"):
            way(tmp_path / "file" / "run")
        with pytest.raises(UserError, match="can't be written"):
            way(Path("/sys/run"))  # read-only for everyone, also for root


def test_a_full_disk_ends_the_run_with_its_cause(tmp_path):
    def fill():
        with lock.locked(tmp_path / "run"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RunError, match=r"run: No space left on device"):
        fill()


def test_a_look_at_a_full_disk_is_refused_before_a_run_is(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock.tempfile, "TemporaryFile", full)
    with pytest.raises(UserError, match="can't be written: No space left on device"):
        look(tmp_path / "run")


def test_a_look_leaves_no_trace(tmp_path):
    assert look(tmp_path / "new" / "run")
    assert list(tmp_path.iterdir()) == []
    assert enter(tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert look(tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("target", ["/dev/null", "/dev/zero", "elsewhere", "nowhere", "pipe", "folder"])
@pytest.mark.parametrize("use", [lock.check_usable, lambda workdir: lock.locked(workdir).__enter__()])
def test_a_lock_that_is_no_plain_file_is_refused(target, use, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "elsewhere").write_text("a user's words")
    file = tmp_path / ".lock"
    if target == "pipe":
        os.mkfifo(file)
    elif target == "folder":
        file.mkdir()
    else:
        file.symlink_to(target)
    with pytest.raises(UserError, match=r"its \.lock is a link, a pipe, a folder or a device; remove it"):
        use(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "a user's words"


@pytest.mark.parametrize(
    "name", ["config.json", "provenance.json", "metrics.jsonl", "metrics.lost.jsonl", "curves.png"]
)
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_file_of_the_run_that_is_none_is_refused(name, make, tmp_path):
    make(tmp_path / name)
    with pytest.raises(UserError, match=f"its {name} is a folder, a pipe or a device; remove it"):
        lock.check_usable(tmp_path)
