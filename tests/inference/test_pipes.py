"""A pipe in the place of a file, whose end may never come, is refused or passed over, and never waited for."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from made_checkpoint import make_run

from vitzoo.checkpoints import steps
from vitzoo.cli import main

GPT2 = Path(__file__).parents[1] / "goldens" / "weights" / "gpt2"
COMMANDS = {
    "predict": "predict --checkpoint RUN@best x.png",
    "eval": "eval --checkpoint RUN@best --config.data.split=test",
    "fine-tune": "train --dry-run --config vit/finetune --config.data.name=digits --config.init_from=RUN@best",
    "resume": "train --dry-run --config quickstart --workdir RUN",
    "report": "report RUN --output page.html",
    "convert": "convert RUN@best out",
}
SECONDS = 30


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    folder.mkdir()
    make_run(folder)
    (folder / "metrics.jsonl").write_text('{"step": 7, "split": "test", "accuracy": 0.5}\n')
    return folder


@pytest.fixture
def bounded():
    """Ends a wait as a failure."""

    def waited(*_):
        raise TimeoutError(f"waits for more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("file", ["config.json", "metrics.jsonl", "model.json", "manifest.json"])
@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=[] if name in ("predict", "convert") else pytest.mark.gate) for name in COMMANDS],
)
def test_of_a_run(run, command, file, tmp_path, monkeypatch, bounded, capsys):
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    found = next(copy.rglob(file))
    found.unlink()
    os.mkfifo(found)
    assert main([word.replace("RUN", str(copy)) for word in COMMANDS[command].split()]) in (0, 1, 2)
    assert "unexpected" not in capsys.readouterr().err


def test_what_the_best_checkpoint_is_compared_with(tmp_path, bounded):
    (tmp_path / "config.json").write_text('{"checkpoint": {"keep_best": "test/accuracy"}}')
    os.mkfifo(tmp_path / "metrics.jsonl")
    assert steps._evaluated_later(tmp_path, 7) is None
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").write_text('{"step": 9, "split": "test", "accuracy": 0.5}\n')
    assert steps._evaluated_later(tmp_path, 7) == (9, "accuracy 0.5")


@pytest.mark.parametrize("file", sorted(path.name for path in GPT2.iterdir()))
@pytest.mark.parametrize("command", ["convert GPT2 out", "generate --checkpoint GPT2 --prompt ab --max-new-tokens 1"])
def test_of_published_weights(command, file, tmp_path, monkeypatch, bounded, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GPT2, tmp_path / "gpt2")
    (tmp_path / "gpt2" / file).unlink()
    os.mkfifo(tmp_path / "gpt2" / file)
    assert main(command.replace("GPT2", "gpt2").split()) in (0, 1, 2)
    assert "unexpected" not in capsys.readouterr().err
