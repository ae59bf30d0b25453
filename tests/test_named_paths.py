"""Paths that no system has, or at which nothing can be read, are refused in one line wherever one is given."""

import os
import socket
from pathlib import Path

import pytest

from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.outputs import checked_file, checked_folder, checked_new_folder
from vitzoo.paths import named_path, readable_path, strange_kind


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """Paths by what is wrong with them, and how it is told."""
    folder = tmp_path_factory.mktemp("strange")
    (folder / "dangling").symlink_to("gone")
    (folder / "loop").symlink_to("loop")
    return {
        "empty": (" ", "names nothing"),
        "NUL": ("a\0b", "holds a NUL character"),
        "a long name": (str(folder / ("x" * 300)), "longer than 255 bytes"),
        "a long name below nothing": (str(folder / "none" / ("ä" * 130)), "longer than 255 bytes"),
        "a long path": ("x/" * 3000, "can't be looked at: File name too long"),
        "no such user": ("~nobody-of-this-name/x", "there is no user nobody-of-this-name"),
        "a broken link": (str(folder / "dangling"), "dangling is a link to gone, which isn't there"),
        "below a broken link": (str(folder / "dangling" / "x"), "dangling is a link to gone, which isn't there"),
        "a circle of links": (str(folder / "loop"), "can't be looked at: Too many levels of symbolic links"),
        "a bucket": ("gs://bucket/runs", "is an address, not a path of this machine; mount the bucket"),
        "an address": ("https://example.org/a.png", "is an address, not a path of this machine; mount or copy"),
        "a model's page": ("https://huggingface.co/org/name", "models of the hub are named ORG/NAME"),
        "half a character": ("\ud800", "characters that no path has"),
    }


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory):
    """What is no file and no folder."""
    folder = tmp_path_factory.mktemp("unreadable")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(os.path.relpath(folder / "socket"))
    return {"a pipe": folder / "pipe", "a socket": folder / "socket", "a device": Path("/dev/zero")}


def test_what_no_path_can_be_is_refused_for_reading_and_for_writing(strange):
    for path, message in strange.values():
        for check in (named_path, readable_path, checked_folder, lambda flag, path: checked_file(flag, path, [""])):
            with pytest.raises(UserError) as caught:
                check("--flag", path)
            line = str(caught.value)
            assert line.startswith("--flag = ")
            assert message in line
            assert "\n" not in line
            assert "\0" not in line


def test_names_that_are_not_utf8_are_read_and_no_folder_is_filled_there(tmp_path, capsys):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(name).mkdir()
    assert readable_path("--flag", name) == Path(name)
    for check in (checked_folder, checked_new_folder):
        with pytest.raises(UserError, match="is not UTF-8, without which no checkpoint is written"):
            check("--flag", name)
    assert main(["train", "--config", "quickstart", "--dry-run", "--workdir", name]) == 2
    assert "caf\\udce9': is not UTF-8" in capsys.readouterr().err


def test_pipes_sockets_and_devices_are_neither_read_nor_written(unreadable, tmp_path):
    for what, path in unreadable.items():
        assert strange_kind(path) == what
        with pytest.raises(UserError, match=f"--flag = .*: is {what}, not a file or a folder"):
            readable_path("--flag", path)
        with pytest.raises(UserError, match="is there and no ordinary file"):
            checked_file("--flag", path, [""])
        with pytest.raises(UserError, match="is not a folder"):
            checked_folder("--flag", path)
    assert readable_path("--flag", unreadable["a pipe"], pipe=True) == unreadable["a pipe"]
    assert strange_kind(tmp_path) == strange_kind(tmp_path / "none") == strange_kind("a\0b") == ""


def test_what_may_not_be_read_or_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="may not be read"):
        readable_path("--flag", tmp_path)
    with pytest.raises(UserError, match=r"the folder /proc can't be written to: "):
        checked_new_folder("--output", "/proc/x/y")


COMMANDS = [
    ["convert", "PATH", "OUT"],
    ["predict", "--checkpoint", "PATH", "a.png"],
    ["eval", "--checkpoint", "PATH"],
    ["generate", "--checkpoint", "PATH", "--prompt", "a"],
    ["average", "--workdir", "PATH", "--last", "2", "--output", "OUT"],
    ["train", "--config", "vit/finetune", "--config.init_from=PATH", "--config.data.name=digits", "--workdir", "OUT"],
    ["train", "--config", "PATH", "--workdir", "OUT"],
    ["data", "check", "folder:PATH"],
    ["data", "check", "csv:PATH"],
    ["data", "check", "jsonl:PATH"],
    ["data", "check", "text:PATH"],
    [
        "train",
        "--config",
        "gpt/quickstart",
        "--config.inputs.tokens.tokenizer.kind=file",
        "--config.inputs.tokens.tokenizer.file=PATH",
        "--dry-run",
    ],
    ["train", "--config", "quickstart", "--config.data.dir=PATH", "--workdir", "OUT", "--config.data.name=mnist"],
    ["configs", "--flagfile", "PATH"],
]
"""Where a path is read."""
WRITING = [
    ["convert", "OUT", "PATH"],
    ["average", "--workdir", "OUT", "--last", "2", "--output", "PATH"],
    ["train", "--config", "quickstart", "--dry-run", "--workdir", "PATH"],
    ["sweep", "--config", "quickstart", "--over", "seed=0,1", "--workdir", "PATH"],
    ["soup", "OUT", "OUT", "--output", "PATH"],
    ["data", "show", "digits", "--output", "PATH.png"],
    ["data", "prepare", "digits", "--dir", "PATH"],
    ["predict", "--checkpoint", "OUT", "--text", "a", "--output", "PATH.csv"],
    ["predict", "--checkpoint", "OUT", "--text", "a", "--features", "PATH.npz"],
    ["generate", "--checkpoint", "OUT", "--prompt", "a", "--output", "PATH.jsonl"],
    ["eval", "--checkpoint", "OUT", "--output", "PATH"],
    ["eval", "--checkpoint", "OUT", "--predictions", "PATH.csv"],
]
"""Where one is written."""


@pytest.mark.parametrize("command", [*COMMANDS, *WRITING], ids=lambda command: " ".join(command[:3]))
def test_every_command_refuses_such_a_path_in_one_line(command, strange, unreadable, tmp_path, capsys):
    paths = [path for path, _ in strange.values() if path.strip()]
    if command in COMMANDS and "--flagfile" not in command:
        paths += list(map(str, unreadable.values()))
    for path in paths:
        if "dangling" in path and any("PATH." in one for one in command):
            continue  # with an ending it is another name, of nothing
        if "loop" in path and any("PATH." in one for one in command):
            continue
        given = [one.replace("PATH", path).replace("OUT", str(tmp_path / "none")) for one in command]
        assert main(given) == 2, given
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "\0" not in said
    assert not list(tmp_path.iterdir())


PATTERNS = ["exp[1]", "a*b", "what?", "back\\slash", "[!a]/below", "gs:"]
"""Names below which Orbax or TensorStore don't find again what they wrote."""
OF_CHECKPOINTS = [
    ["train", "--config", "quickstart", "--workdir", "PATH"],
    ["train", "--config", "quickstart", "--dry-run", "--workdir", "PATH"],
    ["sweep", "--config", "quickstart", "--over", "seed=0,1", "--workdir", "PATH"],
    ["average", "--workdir", "OUT", "--last", "2", "--output", "PATH"],
    ["soup", "OUT", "OUT", "--output", "PATH"],
]


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("command", OF_CHECKPOINTS, ids=lambda command: " ".join(command[:1]))
def test_no_checkpoint_is_written_where_its_parts_would_not_be_found_again(command, name, tmp_path, capsys):
    for path in (tmp_path / name, tmp_path / name / "run"):
        given = [one.replace("PATH", str(path)).replace("OUT", str(tmp_path / "none")) for one in command]
        assert main(given) == 2
        said = capsys.readouterr().err
        assert f"below a folder named {name.partition('/')[0]}, for the" in said
        assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_folder_that_a_command_runs_in_and_what_a_link_leads_to_count_too(tmp_path, monkeypatch, capsys):
    (tmp_path / "exp[1]").mkdir()
    (tmp_path / "link").symlink_to("exp[1]")
    monkeypatch.chdir(tmp_path / "exp[1]")
    assert main(["train", "--config", "quickstart", "--workdir", "run"]) == 2
    assert main(["soup", "a", "b", "--output", str(tmp_path / "link" / "run")]) == 2
    assert capsys.readouterr().err.count("below a folder named exp[1], for the [") == 2
    assert not list((tmp_path / "exp[1]").iterdir())


def test_other_outputs_may_have_any_name(tmp_path):
    for name in ("exp[1]", "a*b", "what?", "back\\slash"):
        (tmp_path / name).mkdir()
        checked_file("--output", tmp_path / name / "x.csv", (".csv",))
        checked_folder("--output", tmp_path / name)
        checked_new_folder("--output", tmp_path / name)
