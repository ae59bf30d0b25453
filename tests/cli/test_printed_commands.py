"""A command that is printed can be copied into a shell, wherever the files lie that it names."""

import importlib
import io
import shlex
from types import SimpleNamespace

import pytest

from vitzoo.cli import main
from vitzoo.cli.arguments import Parser, split_overrides
from vitzoo.training import header, run_folder

NAMES = ["plain", "two words", "it's", 'a "b"', "$HOME", "`x`", "-run", "--top", "a;b&c|d", "#1", "a=b", "å√"]


def read(said: str):
    """The flags, and the settings, as the command itself reads them of the last command in a text."""
    name, *words = shlex.split(said[said.rindex("vitzoo ") :].splitlines()[0])[1:]
    parser, command = Parser(name, "x", ""), importlib.import_module(f"vitzoo.cli.{name}")
    command.arguments(parser)
    rest, overrides = split_overrides(words)
    return parser.parse(rest), dict(text.split("=", 1) for text in overrides)


@pytest.fixture(params=NAMES)
def name(request, tmp_path, monkeypatch):
    """A relative path, which may begin with a hyphen."""
    monkeypatch.chdir(tmp_path)
    return request.param


@pytest.mark.parametrize(("model", "best"), [("vit", {"step": 1, "value": 0.5}), ("gpt", None), ("bert", None)])
def test_what_a_training_says_at_its_end(name, model, best):
    experiment = SimpleNamespace(checkpoint=SimpleNamespace(keep_best="val/loss"))
    own = {"kind": "image"} if model == "vit" else {"kind": "text", "tokenizer": {}}
    parts = {"choice": SimpleNamespace(name=model), "inputs": SimpleNamespace(described=lambda _: {"any": own})}
    parts |= {"model_config": SimpleNamespace(num_classes=2 if model == "vit" else None)}
    parts |= {"state": {"params": {}}, "resolved": SimpleNamespace(experiment=experiment)}
    task = SimpleNamespace(total_steps=3, **parts)
    out = io.StringIO()
    header.say_end(task, run_folder.Path(name), 3, best, None, out)
    flags, _ = read(out.getvalue())
    assert flags.checkpoint == name + "@best" * bool(best)


def test_what_average_soup_and_sweep_say_at_their_end(name, monkeypatch, capsys):
    best = {"name": "seed=1", "values": {"seed": "1"}, "metrics": {}, "best": 0.5, "error": None}
    made = {"runs": [best], "metric": "val/loss", "best": "seed=1", "exit_code": 0}
    monkeypatch.setattr("vitzoo.checkpoints.average.average", lambda *_, **__: [1, 2])
    monkeypatch.setattr("vitzoo.training.sweep.sweep", lambda *_, **__: made)
    monkeypatch.setattr("vitzoo.training.grid.points", lambda *_, **__: [1])
    monkeypatch.setattr("vitzoo.evaluation.soup.soup", lambda *_, **__: {"ingredients": [], "score": None})
    for command, path in (
        (["average", "--workdir=x", "--last=2", f"--output={name}"], name),
        (["soup", "x", f"--output={name}"], name),
        (["sweep", "--config=quickstart", "--over=seed=1", f"--workdir={name}"], f"{name}/seed=1@best"),
    ):
        assert main(command) == 0
        flags, _ = read(capsys.readouterr().out)
        assert flags.checkpoint == path


def test_what_preparing_a_tokenizer_says_at_its_end(name, tmp_path, capsys):
    file = tmp_path / f"{name} text.txt"
    file.write_text("to be or not to be " * 20)
    settings = [
        "--config.inputs.tokens.tokenizer.kind=wordpiece",
        "--config.inputs.tokens.tokenizer.vocabulary_size=30",
    ]
    assert main(["data", "prepare", f"text:{file}", f"--output={name}", *settings]) == 0
    _, settings = read(capsys.readouterr().out)
    assert settings["data.name"] == f"text:{file}"
    assert settings["inputs.tokens.tokenizer.file"].endswith(name)


@pytest.mark.parametrize("typed", ["two words", "$HOME", "it's"])
def test_the_setting_that_was_meant(typed, capsys):
    assert main(["train", "--config=quickstart", "--workdir=x", f"--init-from={typed}"]) == 2
    said = capsys.readouterr().err
    assert shlex.split(said.partition("did you mean ")[2].rstrip().rstrip("?")) == [f"--config.init_from={typed}"]


def test_how_to_go_on_from_a_run(name):
    words = shlex.split(run_folder.start_from(run_folder.Path(name)).removeprefix("a new workdir with "))
    assert words[0] == f"--config.init_from={name}"
