"""A run's `config.json` that isn't what was written is refused by every command that reads it, and nothing is done."""

import json

import pytest
from made_checkpoint import make_run

from vitzoo.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "run"
    folder.mkdir()
    make_run(folder, evaluate={"test": {"name": "classification", "split": "test", "every_epochs": 1}})
    (folder.parent / "other").mkdir()
    make_run(folder.parent / "other")
    return folder


COMMANDS = {
    "resume": ["train", "--config", "quickstart", "--workdir", "RUN"],
    "resume its own": ["train", "--workdir", "RUN"],
    "look": ["train", "--config", "quickstart", "--workdir", "RUN", "--dry-run"],
    "eval": ["eval", "--checkpoint", "RUN"],
    "eval elsewhere": ["eval", "--checkpoint", "RUN", "--config.data.name=digits", "--config.data.split=test"],
    "soup": ["soup", "RUN", "RUN/../other", "--greedy", "test/accuracy", "--output", "RUN/soup"],
    "report": ["report", "RUN", "--output", "RUN/report.html"],
}
NO_OBJECT = {
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "true or false": "true",
    "text": '"x"',
    "not JSON": "",
    "not UTF-8": "\udcff",
    "nested too deeply": '{"a":' * 5000 + "1" + "}" * 5000,
    "twice": '{"seed": 1, "seed": 2}',
}
OF_A_RUN = {
    "lacks the section 'model'": {"model": None},
    "lacks the section 'objective'": {"objective": None},
    "lacks the section 'data'": {"data": None},
    "its section 'data' is a number": {"data": 5},
    "its section 'checkpoint' is a list": {"checkpoint": []},
    "its section 'evaluate' is text": {"evaluate": "x"},
    "its section 'optimizer' is true or false": {"optimizer": True},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_config_that_is_no_object_of_settings_is_refused(command, run, capsys):
    for told, content in NO_OBJECT.items():
        assert told in refused(command, run, content, capsys)


@pytest.mark.parametrize("command", ["resume", "look", "eval", "eval elsewhere"])
def test_a_config_without_a_section_or_with_another_kind_of_one_is_refused(command, run, capsys):
    values = {"total_steps": 7, "model": {"name": "vit"}, "objective": {"name": "classification"}}
    values["data"] = {"name": "digits"}
    for told, change in OF_A_RUN.items():
        changed = {key: value for key, value in (values | change).items() if value is not None}
        assert told in refused(command, run, json.dumps(changed), capsys)


def refused(command, run, content, capsys):
    (run / "config.json").write_text(content, errors="surrogateescape")
    before = {path for path in run.rglob("*") if path.name != ".lock"}
    assert main([part.replace("RUN", str(run)) for part in COMMANDS[command]]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(run / "config.json") in said
    assert {path for path in run.rglob("*") if path.name != ".lock"} == before
    return said
