"""A checkpoint that was put into another run's folder is told apart from that run's own, by what it says of itself."""

import dataclasses
import json
import shutil

import pytest
from made_checkpoint import TINY, make_run
from made_text_run import make_text_run

from vitzoo.checkpoints import manifest
from vitzoo.checkpoints.locate import locate, other_meaning, other_setting
from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.errors import UserError

# what is put into the folder of a ViT of width 16 that was trained for 7 steps on the digits, and what is said of it
OTHERS = {
    "a language model": ("model.name is gpt, this run's (config.json) vit", 3),
    "an encoder": ("model.name is bert, this run's (config.json) vit", 3),
    "of another width": ("model.width is 32, this run's (config.json) 16", 7),
    "of another loss": ("objective.loss is sigmoid, this run's (config.json) softmax", 7),
    "of other data": ("data.name is mnist_5k, this run's (config.json) digits", 7),
    "of a longer training": ("step is 9, this run's (config.json) total_steps 7", 9),
}
BY_NAME = ("a language model", "an encoder")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("others")
    for name in ("own", *OTHERS):
        (folder / name).mkdir()
    make_run(folder / "own")
    make_text_run(folder / "a language model", "gpt", "text:x")
    make_text_run(
        folder / "an encoder", "bert", "text:x", objective="sequence_classification",
        classes=["a", "b"], head="classification", num_classes=2,
    )  # fmt: skip
    make_run(folder / "of another width", dataclasses.replace(TINY, width=32))
    make_run(folder / "of another loss", loss="sigmoid")
    make_run(folder / "of other data", data="mnist_5k")
    make_run(folder / "of a longer training", step=9)
    return folder


def mixed(runs, folder, other):
    """The run, with the other one's checkpoint in place of its own."""
    shutil.copytree(runs / "own", folder)
    shutil.rmtree(folder / "checkpoints" / "7")
    step = OTHERS[other][1]
    shutil.copytree(runs / other / "checkpoints" / str(step), folder / "checkpoints" / str(step))
    return folder, folder / "checkpoints" / str(step)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["train", "dry run"])
def test_a_training_does_not_go_on_from_it_nor_call_it_finished(other, more, runs, tmp_path, capsys):
    run, checkpoint = mixed(runs, tmp_path / "run", other)
    before = (run / "config.json").read_bytes()
    assert main(["train", "--workdir", str(run), *more]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{checkpoint} is of another run: its {OTHERS[other][0]}; move it out" in said
    assert (run / "config.json").read_bytes() == before


def kept(run, config):
    """The run, whose checkpoint has kept these settings of its meaning."""
    step = run / "checkpoints" / "7"
    content = json.loads((step / "model.json").read_text())
    (step / "model.json").write_text(json.dumps({**content, "config": config}))
    manifest.write(step)
    return run


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 5}, "its seed is 5, this run's (config.json) 0"),
        ({"ema": 0.5, "seed": 0}, "its ema is 0.5, this run's (config.json) 0.0"),
        (
            {"optimizer": {"name": "adamw", "learning_rate": 0.5}},
            "its optimizer.learning_rate is 0.5, this run's (conf",
        ),
        ({"optimizer": {"name": "sgd"}}, "its optimizer.name is sgd, this run's (config.json) adamw"),
        ({"data": {"name": "folder:/a/photos"}}, "its data.name is folder:/a/photos, this run's (config.json) digits"),
        ({"non_finite": "stop"}, "its non_finite is stop, this run's (config.json) skip"),
    ],
)
def test_settings_that_a_checkpoint_has_kept_are_those_of_its_run(changed, said, runs, tmp_path, capsys):
    run = kept(shutil.copytree(runs / "own", tmp_path / "run"), changed)
    values = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(resolve(values).values))
    commands = (["train", "--workdir"], ["train", "--dry-run", "--workdir"], ["predict", "a.png", "--checkpoint"])
    for command in (*commands, ["eval", "--workdir"]):
        assert main([*command, str(run)]) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert f"{run}/checkpoints/7 is of another run: {said}" in line


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"seed": 0, "gone": 5, "optimizer": {"name": "adamw", "gone": 1}},
        {"mesh": "data:2", "log": {"every_steps": 3}, "data": {"name": "digits", "workers": 3}},
    ],
    ids=["none", "of another version", "that may change"],
)
def test_settings_that_only_one_has_or_that_may_change_are_no_difference(config, runs, tmp_path):
    run = kept(shutil.copytree(runs / "own", tmp_path / "run"), config)
    values = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(resolve(values).values))
    assert locate(run).step == 7


def test_data_that_were_moved_are_no_others():
    then, now = ({"data": {"name": f"folder:{place}/photos"}, "seed": 0} for place in ("/a", "/b"))
    assert other_meaning(now, {"config": then}) == ""
    assert "data.name" in other_meaning({"data": {"name": "folder:/a/other"}}, {"config": then})


@pytest.mark.parametrize("other", BY_NAME)
@pytest.mark.parametrize("place", ["{run}", "{run}@3", "{run}/checkpoints/3"])
@pytest.mark.parametrize("command", ["predict", "generate", "eval"])
def test_nor_does_what_uses_the_run(command, place, other, runs, tmp_path, capsys):
    run, checkpoint = mixed(runs, tmp_path / "run", other)
    what = {"predict": ["--text", "x"], "generate": ["--prompt", "x"], "eval": []}[command]
    assert main([command, "--checkpoint", place.format(run=run), *what]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{checkpoint} is of another run: its {OTHERS[other][0]}" in said
    moved = tmp_path / "elsewhere"
    checkpoint.rename(moved)
    assert locate(moved).step == 3


@pytest.mark.parametrize("other", BY_NAME)
def test_nor_is_it_averaged(other, runs, tmp_path, capsys):
    run, checkpoint = mixed(runs, tmp_path / "run", other)
    assert main(["average", "--workdir", str(run), "--last", "2", "--output", str(tmp_path / "mean")]) == 2
    assert f"{checkpoint} is of another run: its {OTHERS[other][0]}" in capsys.readouterr().err


def test_its_own_is_used_whatever_its_config_leaves_to_the_checkpoint(runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs / "own", run)
    values = json.loads((run / "config.json").read_text())
    for model in ({"name": "vit"}, {"name": ""}, {}, values["model"]):
        (run / "config.json").write_text(json.dumps(values | {"model": model}))
        assert locate(run).step == 7
    (run / "config.json").write_text("[")  # who needs it refuses it
    assert locate(run).step == 7
    (run / "config.json").write_text(json.dumps(values | {"model": {"name": "vit", "variant": "S/16"}}))
    with pytest.raises(UserError, match=r"model\.variant is none, this run's \(config\.json\) S/16"):
        locate(run)


@pytest.mark.parametrize(("stated", "kept"), [(8, [8, 8]), ([8, 8], [8, 8]), (0.1, 0.1), ((1, 2), [1, 2]), ([], [])])
def test_a_setting_is_the_same_however_it_is_written(stated, kept):
    assert other_setting({"size": stated}, {"size": kept}, "model") == ""
    assert "its model.size is 7" in other_setting({"size": stated}, {"size": 7}, "model")
