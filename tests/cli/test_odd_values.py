"""Whatever is typed behind a flag, or for a name, ends in one line and exit code 2, or is taken as the text it is."""

import importlib

import pytest

from vitzoo.cli import main
from vitzoo.cli.arguments import Parser
from vitzoo.cli.entry import COMMANDS

ODD = [
    "",
    "--",
    "-",
    "--x",
    "a\0b",
    "\ud800",
    "\udcff",
    "nan",
    "1e400",
    "1_000",
    "٣",
    "9" * 5000,
    "[",
    "{0}",
    "%s",
    "\n",
    "💥",
]
GIVEN = {
    "train": ["--config=quickstart", "--workdir=runs", "--config.seed=x", "--dry-run"],
    "sweep": ["--config=quickstart", "--workdir=runs", "--over=seed=x", "--dry-run"],
    "eval": ["--checkpoint=none"],
    "predict": ["--checkpoint=none", "x.png"],
    "generate": ["--checkpoint=none", "--prompt=x"],
    "convert": ["none", "new"],
    "average": ["--workdir=none", "--last=2", "--output=new"],
    "soup": ["none", "none", "--output=new"],
    "models": ["X/16"],
    "configs": ["none"],
    "plan": ["--config=none", "--topology=cpu:1"],
    "data": ["check", "folder:none"],
    "report": ["none"],
}
"""By command, flags with which it is refused in any case, and at once."""


def flags_of(command: str) -> list[str]:
    parser = Parser(command, "x", "")
    importlib.import_module(f"vitzoo.cli.{command}").arguments(parser)
    flags = [flag for action in parser._actions if action.nargs != 0 for flag in action.option_strings]
    return [flag for flag in flags if flag.startswith("--") and not flag.endswith(".KEY")]


def refused_in_one_line(arguments, capsys):
    assert main(arguments) == 2, arguments
    said = capsys.readouterr().err
    assert said.startswith("vitzoo: "), said
    assert said.count("\n") == 1, said
    assert "unexpected" not in said, said
    said.encode()


def test_all_commands_are_tried():
    assert set(GIVEN) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_odd_value_of_any_flag_is_refused_in_one_line(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place, flag in enumerate(flags_of(command)):
        others = [word for word in GIVEN[command] if not word.startswith(f"{flag}=")]
        refused_in_one_line([command, *others, f"{flag}=--"], capsys)
        refused_in_one_line([command, *others, flag], capsys)
        for odd in (ODD[(3 * place + each) % len(ODD)] for each in range(3)):
            refused_in_one_line([command, *others, f"{flag}={odd}"], capsys)
            refused_in_one_line([command, *others, f"{flag}={odd}", f"{flag}={odd}"], capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_name_is_refused_in_one_line(odd, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (
        ["configs", odd],
        ["models", odd],
        ["data", odd, "x"],
        ["report", odd],
        ["convert", odd, "x"],
        [odd],
    ):
        if odd != "--" or command[0] not in ("configs", "models"):  # there it is the end of the flags
            refused_in_one_line(command, capsys)
    for kind in ("", "folder:", "csv:", "text:", "jsonl:", "mixture:"):
        refused_in_one_line(["data", "check", f"{kind}{odd}"], capsys)


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["train", "--config=quickstart", "--workdir=run", "--config.evaluate.test.split="], "evaluate.test.split"),
        (["data", "check", "digits", "--split="], "data.split"),
        (["data", "show", "digits", "--split="], "data.split"),
    ],
)
def test_a_split_without_a_name_is_none(blank, arguments, field, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*arguments[:-1], f"{arguments[-1]}{blank}"]) == 2
    right = "is not a split; write train, train[:99%], train[100:200], train+test or all"
    assert capsys.readouterr().err == f"vitzoo: {field} = {blank!r}: {right}\n"
