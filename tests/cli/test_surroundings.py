"""Where vitzoo is run: a folder that is gone, a user without a home, names that begin with `~`, a full /tmp."""

import errno
import importlib
import os
import pwd
import tempfile
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import vitzoo
from vitzoo.cli import main
from vitzoo.data.folders import cache_folder, data_folders
from vitzoo.data.settings import Data
from vitzoo.errors import UserError
from vitzoo.paths import expanded, named_path
from vitzoo.training.speed import use_compilation_cache

COMMANDS = [
    ["configs"],
    ["models"],
    ["train", "--config", "quickstart", "--workdir", "run"],
    ["train", "--config", "quickstart", "--workdir", "run", "--dry-run"],
    ["sweep", "--config", "quickstart", "--over", "seed=0,1", "--workdir", "run"],
    ["eval", "--checkpoint", "run"],
    ["predict", "--checkpoint", "run", "a.png"],
    ["generate", "--checkpoint", "run", "--prompt", "a"],
    ["convert", "a", "b"],
    ["soup", "a", "b", "--output", "c"],
    ["average", "--workdir", "a", "--last", "2", "--output", "c"],
    ["report", "run"],
    ["data", "check", "folder:photos"],
    ["plan", "--config", "quickstart", "--topology", "cpu:1"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_a_command_in_a_folder_that_is_gone_says_so(command, tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    assert main(command) == 2
    assert capsys.readouterr().err == "vitzoo: the current folder: was deleted; change to another (cd) and try again\n"


CALLS = {
    "train": lambda: vitzoo.train("quickstart", "run"),
    "evaluate": lambda: vitzoo.evaluate("run"),
    "predict": lambda: vitzoo.predict("run", "x.png"),
    "load": lambda: vitzoo.load("run"),
    "list_models": lambda: vitzoo.list_models(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_a_folder_that_is_gone_says_so(call, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    with pytest.raises(UserError, match="the current folder: was deleted; change to another"):
        CALLS[call]()


@pytest.fixture
def homeless(monkeypatch):
    """A container's user: no $HOME, and no entry in the list of users."""

    def nobody(_):
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CACHE_HOME", "VITZOO_CACHE", "TFDS_DATA_DIR", "MPLCONFIGDIR"):
        monkeypatch.delenv(name, raising=False)


def photos(folder):
    for number in range(6):
        (folder / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(np.full((8, 8), 40 * number, np.uint8)).save(
            folder / f"class{number % 2}" / f"{number}.png"
        )
    return folder


def test_a_user_without_a_home_folder_has_caches_and_data_for_the_time_of_a_command(homeless, tmp_path, capsys):
    use_compilation_cache()
    assert cache_folder().is_dir()
    assert data_folders(Data(name="x")) == [cache_folder() / "tensorflow_datasets"]
    assert main(["data", "check", f"folder:{photos(tmp_path / 'photos')}"]) == 0
    assert main(["data", "check", "digits"]) == 0
    assert main(["models", "--pretrained", "nothing-of-this-name"]) == 2
    assert main(["data", "prepare", f"folder:{tmp_path}/photos"]) == 2
    assert "--dir: must be given: you have no home folder" in capsys.readouterr().err.replace("vitzoo: dir", "--dir")
    assert main(["data", "check", "folder:~/photos"]) == 2
    assert "you have no home folder (set $HOME)" in capsys.readouterr().err


def test_names_that_begin_with_a_tilde_are_names_where_no_user_is_called_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "~photos")
    (tmp_path / "~photos" / "class0" / "0.png").rename(tmp_path / "~x.png")
    rows = [f"~photos/class{n % 2}/{n}.png,{n % 2}" for n in range(1, 6)]
    (tmp_path / "~labels.csv").write_text("\n".join(["file,label", "~x.png,0", *rows, ""]))
    (tmp_path / "~texts.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    for name in ("folder:~photos", "csv:~labels.csv", "csv:./~labels.csv", f"csv:{tmp_path}/~labels.csv"):
        assert main(["data", "check", name]) == 0, name
    assert main(["data", "check", "jsonl:~texts.jsonl", "--split", "all"]) == 0
    assert main(["data", "show", "csv:~labels.csv", "--output", "./~sheet.png"]) == 0
    assert (tmp_path / "~sheet.png").is_file()
    assert named_path("--flag", "~x.png") == tmp_path / "~x.png"
    assert named_path("--flag", "./~root") == tmp_path / "~root"
    capsys.readouterr()
    for name in ("folder:~none", "csv:~none.csv", "jsonl:~none.jsonl", "text:~none"):
        assert main(["data", "check", name]) == 2
        said = capsys.readouterr().err
        assert "there is no user none" in said
        assert said.count("\n") == 1
    assert expanded("~") == Path.home()


@pytest.fixture
def unforeseen(monkeypatch):
    """A command that ends in a fault that nobody foresaw."""
    monkeypatch.setattr(importlib.import_module("vitzoo.cli.configs"), "run", lambda _: {}["missing"])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_trace_that_can_not_be_written_is_no_second_fault(code, unforeseen, monkeypatch, capsys):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "mkstemp", fail)
    assert main(["configs"]) == 1
    assert capsys.readouterr().err == "vitzoo: unexpected KeyError: 'missing' (--debug prints the trace)\n"


def test_a_trace_that_fills_the_disk_is_no_second_fault_and_leaves_no_file(unforeseen, tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("traceback.format_exception", full)
    assert main(["configs"]) == 1
    assert capsys.readouterr().err == "vitzoo: unexpected KeyError: 'missing' (--debug prints the trace)\n"
    assert not list(tmp_path.iterdir())


def test_a_full_disk_and_a_missing_tmp_are_failures_in_words(monkeypatch, capsys):
    command = importlib.import_module("vitzoo.cli.configs")
    none = "No usable temporary directory found in ['/tmp', '/var/tmp']"
    for error, told in {
        OSError(errno.ENOSPC, "No space left on device", "/tmp/x"): "/tmp/x can't be written: No space left on device",
        OSError(errno.EROFS, "Read-only file system"): "a file can't be written: Read-only file system",
        FileNotFoundError(errno.ENOENT, none): "no temporary folder can be written; $TMPDIR names another",
    }.items():
        monkeypatch.setattr(command, "run", lambda _, error=error: (_ for _ in ()).throw(error))
        assert main(["configs"]) == 1
        assert capsys.readouterr().err == f"vitzoo: {told}\n"
