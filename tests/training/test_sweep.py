"""Every combination is a run in a folder of its own, and one table says what came of each."""

import csv
import json
import math

import pytest

from vitzoo.cli import main
from vitzoo.errors import RunError, UserError
from vitzoo.training import sweep as sweeps
from vitzoo.training.grid import parse_axis, points
from vitzoo.training.sweep import sweep


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A config file with an argument: three steps of a tiny ViT."""
    file = tmp_path_factory.mktemp("configs") / "tiny.py"
    file.write_text(
        "import striped\n\n\n"
        "def get_config(arg='16'):\n"
        "    config = striped.config(total_steps=3, ema=0, augment=dict(mixup=0.0), accumulate=1)\n"
        "    config.data = dict(name='striped:Stripes', batch_size=int(arg))\n"
        "    return config\n"
    )
    return file


def test_the_values_of_a_setting_are_parted_by_commas_or_where_they_hold_some_by_semicolons():
    assert parse_axis("optimizer.learning_rate=0.1, 0.2") == ("optimizer.learning_rate", ["0.1", "0.2"])
    assert parse_axis("mesh=data:2,fsdp:2;data:4") == ("mesh", ["data:2,fsdp:2", "data:4"])
    assert parse_axis("--config.seed=1") == ("seed", ["1"])


@pytest.mark.parametrize("text", ["seed", "seed=", "=1", "seed=1,,2", "seed=1,1"])
def test_an_axis_written_otherwise_is_refused(text):
    with pytest.raises(UserError, match="--over"):
        parse_axis(text)


@pytest.mark.parametrize("sizes", [(1001,), (400, 250), (100, 10, 10, 10), (100_000,)])
def test_a_sweep_of_too_many_runs_is_refused_before_any_is_looked_at(sizes, tmp_path, capsys):
    keys = ("seed", "total_steps", "log.every_steps", "data.batch_size")
    axes = [f"--over={key}={','.join(map(str, range(size)))}" for key, size in zip(keys, sizes, strict=False)]
    assert main(["sweep", "--config", "quickstart", "--workdir", str(tmp_path / "w"), "--dry-run", *axes]) == 2
    count = f"{math.prod(sizes):,}"
    assert f"makes {count} runs; a sweep has 1,000 at most" in capsys.readouterr().err


def test_every_combination_is_a_run_and_the_last_setting_runs_fastest(file):
    found = points(file, {"optimizer.learning_rate": ["0.1", "0.2"], "seed": ["0", "1"]}, ["optimizer.grad_clip=0"])
    assert [point.name for point in found] == [
        f"learning_rate={rate},seed={seed}" for rate in ("0.1", "0.2") for seed in (0, 1)
    ]
    experiments = [point.resolved.experiment for point in found]
    assert [(e.optimizer.learning_rate, e.seed, e.optimizer.grad_clip) for e in experiments] == [
        (0.1, 0, 0),
        (0.1, 1, 0),
        (0.2, 0, 0),
        (0.2, 1, 0),
    ]


def test_the_argument_of_the_config_can_be_swept_and_settings_of_one_last_name_are_told_apart(file):
    sizes = [point.resolved.experiment.data.batch_size for point in points(file, {"arg": ["8", "32"]})]
    assert sizes == [8, 32]
    (point,) = points(file, {"log.every_steps": ["2"], "checkpoint.every_steps": ["3"]})
    assert point.name == "log.every_steps=2,checkpoint.every_steps=3"


@pytest.mark.parametrize(
    ("axes", "overrides", "field"),
    [
        ({"optimizer.learning_rat": ["0.1"]}, [], "optimizer.learning_rat"),
        ({"optimizer.learning_rate": ["0.1", "fast"]}, [], "optimizer.learning_rate"),
        ({"seed": ["1"]}, ["seed=2"], "--config.seed"),
        ({"data.dir": ["/a", "a/"]}, [], "--over"),  # both would lie in dir=a
        ({"optimizer.learning_rate": ["0.01", "1e-2"]}, [], "--over"),  # one training twice
        ({"data.dir": ["a" * 200], "init_from": ["b" * 200]}, [], "--over"),  # no folder has such a name
    ],
)
def test_what_no_run_could_be_is_refused_before_the_first(file, axes, overrides, field):
    with pytest.raises(UserError) as refusal:
        points(file, axes, overrides)
    assert refusal.value.field == field


def test_an_argument_is_given_by_the_configs_name_or_swept(file):
    with pytest.raises(UserError, match=r"--config = .*tiny.py:8: names an argument, and --over arg= does too"):
        points(f"{file}:8", {"arg": ["16", "32"]})


@pytest.mark.slow
def test_a_sweep_leaves_a_table_a_picture_and_runs_and_does_nothing_more_when_it_is_done(file, tmp_path, capsys):
    command = ["sweep", "--config", str(file), "--workdir", str(tmp_path / "rates"), "--json"]
    command += ["--over", "optimizer.learning_rate=0.01,0.0"]
    results = []
    for _ in range(2):
        assert main(command) == 0
        said = capsys.readouterr().out
        results.append(json.loads(said.splitlines()[-1]))
    assert said.count("is finished") == 2
    assert results[0] == results[1]
    best = results[0]["best"]
    losses = {run["name"]: run["metrics"]["test/loss"] for run in results[0]["runs"]}
    assert losses["learning_rate=0.0"] == pytest.approx(0.6931, abs=1e-3)  # ln 2: a head of zeros, never trained
    assert best == min(losses, key=losses.get)
    assert f"next    vitzoo eval --checkpoint {tmp_path}/rates/{best}" in said
    rows = list(csv.DictReader((tmp_path / "rates/sweep.csv").open()))
    assert {row["run"]: float(row["test/loss"]) for row in rows} == losses
    assert (tmp_path / "rates/sweep.png").read_bytes().startswith(b"\x89PNG")


def trained(loss, exit_code=0):
    return {
        "exit_code": exit_code,
        "best": None,
        "metrics": {"test": {"step": 3, "split": "test", "n": 20, "loss": loss}},
    }


def swept(file, tmp_path, monkeypatch, results):
    """A sweep over three seeds whose runs end as given."""
    left = list(results)

    def train(resolved, workdir, out):
        workdir.mkdir(parents=True)
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(sweeps, "train", train)
    return sweep(points(file, {"seed": ["0", "1", "2"]}), tmp_path / "seeds")


def test_one_run_that_fails_leaves_the_others_and_the_exit_code_says_so(file, tmp_path, monkeypatch, capsys):
    values = swept(file, tmp_path, monkeypatch, [trained(0.5), RunError("not finite at step 2"), trained(0.4)])
    assert (values["exit_code"], values["best"]) == (1, "seed=2")
    assert [run["error"] for run in values["runs"]] == [None, "not finite at step 2", None]
    rows = list(csv.DictReader((tmp_path / "seeds/sweep.csv").open()))
    assert [(row["seed"], row["test/loss"], row["error"]) for row in rows] == [
        ("0", "0.5", ""),
        ("1", "", "not finite at step 2"),
        ("2", "0.4", ""),
    ]
    assert (tmp_path / "seeds/sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_of_which_no_run_can_begin_is_refused(file, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"data\.name"):
        swept(file, tmp_path, monkeypatch, [UserError("data.name", "photos", "isn't there")] * 3)


def test_a_signal_ends_the_sweep_and_what_is_done_is_told(file, tmp_path, monkeypatch):
    values = swept(file, tmp_path, monkeypatch, [trained(0.5), trained(0.9, exit_code=75)])
    assert values["exit_code"] == 75
    assert [run["name"] for run in values["runs"]] == ["seed=0"]


@pytest.mark.parametrize("gone", ["seeds", "seeds/seed=0"])
def test_a_sweep_whose_folder_is_moved_meanwhile_fails_and_makes_no_new_one(gone, file, tmp_path, monkeypatch, capsys):
    def train(resolved, workdir, out):
        if workdir.name == "seed=1":
            (tmp_path / gone).rename(tmp_path / "away")
        else:
            workdir.mkdir(parents=True)
        return trained(0.5)

    monkeypatch.setattr(sweeps, "train", train)
    over = ["--over", "seed=0,1", "--workdir", str(tmp_path / "seeds")]
    assert main(["sweep", "--config", str(file), *over]) == 1
    assert f"{tmp_path}/{gone} was moved or deleted while the sweep was running" in capsys.readouterr().err
    assert not (tmp_path / gone).exists()


def refused(file, workdir, axes, monkeypatch, overrides=()):
    """Why a sweep is refused before it trains anything."""
    monkeypatch.setattr(sweeps, "train", lambda *_: pytest.fail("a run was trained"))
    with pytest.raises(UserError) as refusal:
        sweep(points(file, axes, overrides), workdir)
    return str(refusal.value)


SEEDS = {"seed": ["0", "1"]}


def test_what_stands_in_the_way_of_any_run_is_refused_before_the_first(file, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    assert "is not a folder" in refused(file, tmp_path / "file", SEEDS, monkeypatch)
    for name in ("a", "b", "run", "table"):
        (tmp_path / name / "seed=1").mkdir(parents=True)
    (tmp_path / "a/seed=1/notes.txt").write_text("mine")
    assert "seed=1: holds notes.txt and no config.json" in refused(file, tmp_path / "a", SEEDS, monkeypatch)
    (tmp_path / "b/seed=1/config.json").write_text("{")
    assert "seed=1/config.json: can't be read" in refused(file, tmp_path / "b", SEEDS, monkeypatch)
    (before,) = points(file, {"seed": ["1"]}, ["optimizer.learning_rate=0.5"])
    (tmp_path / "b/seed=1/config.json").write_text(json.dumps(before.resolved.values))
    assert "this run was started with 0.5" in refused(file, tmp_path / "b", SEEDS, monkeypatch)
    (tmp_path / "run/config.json").write_text("{}")
    assert "is the folder of a run" in refused(file, tmp_path / "run", SEEDS, monkeypatch)
    (tmp_path / "table/sweep.csv").write_text("mine")
    assert "holds sweep.csv, not written by a sweep" in refused(file, tmp_path / "table", SEEDS, monkeypatch)
    assert (tmp_path / "table/sweep.csv").read_text() == "mine"
    found = refused(file, tmp_path / "new", {"init_from": ["none", str(tmp_path / "nothing")]}, monkeypatch)
    assert found.startswith(f"init_from = {tmp_path}/nothing: ")
    assert "mesh = data:3: takes 3 devices" in refused(
        file, tmp_path / "new", {"mesh": ["auto", "data:3"]}, monkeypatch
    )
    assert not (tmp_path / "new").exists()


def test_runs_that_would_be_compared_by_different_metrics_are_refused(file, tmp_path, monkeypatch):
    axes = {"checkpoint.keep_best": ["test/accuracy", "test/loss"]}
    message = refused(file, tmp_path / "new", axes, monkeypatch)
    assert "checkpoint.keep_best=test/loss: would be compared by test/loss" in message


def test_without_a_loss_runs_are_compared_by_the_evaluators_first_metric_that_they_have(file, tmp_path, monkeypatch):
    result = {"exit_code": 0, "best": None, "metrics": {"test": {"step": 3, "split": "test", "accuracy_k5": 0.5}}}
    better = {**result, "metrics": {"test": {"step": 3, "split": "test", "accuracy_k5": 0.75}}}
    left = [result, better]
    monkeypatch.setattr(sweeps, "train", lambda resolved, workdir, out: workdir.mkdir(parents=True) or left.pop(0))
    knn = ["evaluate.test.name=knn", "evaluate.test.k=5", "checkpoint.keep_best="]
    values = sweep(points(file, SEEDS, knn), tmp_path / "knn")
    assert (values["metric"], values["best"]) == ("test/accuracy_k5", "seed=1")


def test_a_run_without_memory_leaves_the_others(file, tmp_path, monkeypatch):
    values = swept(file, tmp_path, monkeypatch, [trained(0.5), RuntimeError("RESOURCE_EXHAUSTED: 9 GB"), trained(0.4)])
    assert values["best"] == "seed=2"
    assert values["runs"][1]["error"].startswith("out of memory: lower data.batch_size")


def test_a_table_that_told_of_other_runs_is_not_replaced_in_silence(file, tmp_path, monkeypatch, capsys):
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds/sweep.json").write_text('{"runs": [{"name": "seed=2"}, {"name": "learning_rate=0.1"}]}')
    swept(file, tmp_path, monkeypatch, [trained(0.5), trained(0.4), trained(0.3)])
    said = capsys.readouterr().out
    assert "replaced sweep.json, sweep.csv, sweep.png, which told of learning_rate=0.1 too" in said
