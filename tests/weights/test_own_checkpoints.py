"""Commands that take checkpoints of vitzoo's own say so of published weights, and how one is made of them."""

import shutil
from pathlib import Path

import pytest
from made_checkpoint import make_run

from vitzoo.cli import main

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
GPT2, TORCH = GOLDENS / "gpt2", GOLDENS / "gpt2_torch"
NEEDED = "published weights, and a run or checkpoint of vitzoo's own is needed here; `vitzoo convert {} NEW_FOLDER`"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    make_run(folder)
    return folder


@pytest.mark.parametrize("weights", [GPT2, TORCH, GPT2 / "model.safetensors", GOLDENS / "hf-vit" / "vit"], ids=str)
@pytest.mark.parametrize(
    "line", ["soup {run} {weights} --output {out}", "average --workdir {weights} --last 2 --output {out}"]
)
def test_published_weights_are_refused_by_what_takes_runs(line, weights, run, tmp_path, capsys):
    if line.startswith("average") and weights.is_file():
        weights = weights.parent
    assert main(line.format(run=run, weights=weights, out=tmp_path / "out").split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f" = {weights}: holds {NEEDED.format(weights)}" in error
    assert "nor" not in error


def test_a_name_of_published_weights_is_refused_by_what_takes_runs(run, tmp_path, capsys):
    for name in ("google-t5/t5-small", "openai-community/gpt2"):
        assert main(["soup", str(run), name, "--output", str(tmp_path / "out")]) == 2
        assert f"{name}: is the name of {NEEDED.format(name)}" in capsys.readouterr().err


def test_a_report_is_of_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GPT2, tmp_path / "gpt2")
    assert main(["report", str(tmp_path / "gpt2")]) == 2
    assert "gpt2: is no run: it holds published weights" in capsys.readouterr().err


def test_what_the_message_says_makes_one(run, tmp_path, capsys):
    assert main(["convert", str(GPT2), str(tmp_path / "own")]) == 0
    assert main(["soup", str(tmp_path / "own"), str(run), "--output", str(tmp_path / "out")]) == 2
    assert "has another model than" in capsys.readouterr().err
