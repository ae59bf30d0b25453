"""The README's first command, as a user types it."""

import json
import os
import re
import subprocess
import sys

import pytest

from vitzoo.cli import main


def vitzoo(*arguments):
    environment = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "vitzoo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout


def test_the_quickstart_trains_on_all_digits_but_the_test_set(tmp_path, capsys):
    """A fifth of the 1,797 digits, 360, is held out; 120 epochs of the other 1,437 by 128 are 1,347.2 steps."""
    assert main(["train", "--config", "quickstart", "--workdir", str(tmp_path / "run"), "--dry-run"]) == 0
    said = capsys.readouterr().out
    counts = [line.split() for line in said.splitlines() if re.fullmatch(r"\d +\d+ +\d+", line)]
    assert [sum(map(int, column)) for column in list(zip(*counts, strict=True))[1:]] == [1437, 360]
    assert "trains  1,348 steps of 128 examples" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ([], 0.97),  # reached when written: 98.1 %; with 360 images one deviation is 0.7 points
        # a fifth of it: 95.6 % when written
        pytest.param(["--config.total_epochs=none", "--config.total_steps=250"], 0.92, marks=pytest.mark.gate),
    ],
    ids=["whole", "short"],
)
def test_the_quickstart_reads_the_digits_and_its_checkpoint_reads_a_file(tmp_path, changes, least):
    from PIL import Image
    from sklearn.datasets import load_digits

    run = str(tmp_path / "quickstart")
    said = vitzoo("train", "--config", "quickstart", "--workdir", run, *changes)
    assert f"next    vitzoo predict --checkpoint {run}" in said
    result = json.loads(vitzoo("eval", "--workdir", run, "--json").splitlines()[-1])["results"]["test"]
    assert result["n"] == 360
    assert result["metrics"]["accuracy"] >= least
    levels, labels = load_digits(return_X_y=True)
    file = tmp_path / "digit.png"
    Image.fromarray((levels[0].reshape(8, 8) * (255 / 16)).round().astype("uint8")).save(file)
    row = json.loads(vitzoo("predict", "--checkpoint", run, str(file), "--json").splitlines()[-1])["predictions"][0]
    assert row["top"][0]["label"] == str(labels[0])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_quickstart_of_text_reaches_its_loss_and_writes_python(tmp_path):
    run = str(tmp_path / "gpt")
    said = vitzoo("train", "--config", "gpt/quickstart", "--workdir", run)
    assert f"next    vitzoo generate --checkpoint {run} --prompt TEXT" in said
    result = json.loads(vitzoo("eval", "--checkpoint", run, "--json").splitlines()[-1])["results"]["val"]
    assert result["metrics"]["loss"] <= 1.65  # 1.597 when written; the source of another Python differs a little
    written = vitzoo("generate", "--checkpoint", run, "--prompt", "def ", "--max-new-tokens", "200", "--seed", "1")
    assert written.startswith("def ")
    assert "(" in written
    assert ":\n" in written
