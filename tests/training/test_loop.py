"""A run from start to end, whatever comes between: its state and its numbers are those of an undisturbed one."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from striped import Stripes, config

from vitzoo.checkpoints import metadata
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.checkpoints.locate import locate
from vitzoo.checkpoints.steps import listed
from vitzoo.checkpoints.store import Store
from vitzoo.cli.train import dry_run
from vitzoo.config import resolve
from vitzoo.errors import RunError, UserError
from vitzoo.parallel import sharding
from vitzoo.training import loop, records, setup

ITEMS = ("params", "ema", "optimizer")


class Crash(Exception):
    """Stands for the death of the process: nothing of the loop runs after it."""


def run(workdir, **changes):
    out = io.StringIO()
    return loop.train(config(**changes), workdir, out), out.getvalue()


def at_batch(monkeypatch, number, act):
    """Do `act(batch)` before the `number`-th batch that this process trains on."""
    put, seen = sharding.put, []

    def counting(batch, mesh):
        seen.append(batch)
        return put((len(seen) == number and act(batch)) or batch, mesh)

    monkeypatch.setattr(loop, "put", counting)


def send(number):
    return lambda batch: os.kill(os.getpid(), number)


def crash(batch):
    raise Crash


def poison(batch):
    return {**batch, "example_weight": np.full_like(batch["example_weight"], np.nan)}


def lines_of(workdir):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "goodput")} for line in lines]


def steps_of(workdir):
    return listed(workdir / "checkpoints")


def assert_same_end(workdir, straight, step=20):
    left, right = (folder / "checkpoints" / str(step) for folder in (straight, workdir))
    for item in ITEMS:
        pairs = zip(*(jax.tree.leaves(read_arrays(side / item)) for side in (left, right)), strict=True)
        assert all(a.tobytes() == b.tobytes() for a, b in pairs), item
    assert metadata.read_loop(left) == metadata.read_loop(right)
    assert lines_of(workdir) == lines_of(straight)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """An undisturbed run, and what it returned and said."""
    workdir = tmp_path_factory.mktemp("runs") / "straight"
    summary, said = run(workdir)
    return workdir, summary, said


def test_a_checkpoint_keeps_the_settings_that_are_the_meaning_of_its_run(straight):
    workdir, summary, _ = straight
    values = json.loads((workdir / "config.json").read_text())
    content = json.loads((workdir / "checkpoints" / str(summary["step"]) / "model.json").read_text())
    kept = content["config"]
    assert kept["optimizer"] == values["optimizer"]
    assert kept["seed"] == values["seed"]
    assert not {"mesh", "log", "checkpoint", "evaluate", "profile"} & set(kept)
    assert set(kept["data"]) < set(values["data"])


def test_a_run_leaves_its_config_provenance_metrics_curves_and_checkpoints(straight):
    workdir, summary, _ = straight
    names = {path.name for path in workdir.iterdir()}
    assert names == {".lock", "checkpoints", "config.json", "curves.png", "metrics.jsonl", "provenance.json"}
    assert {15, 20, summary["best"]["step"]} == set(steps_of(workdir))
    assert (summary["step"], summary["finished"], summary["exit_code"]) == (20, True, 0)


def test_what_a_run_says_first_and_last(straight):
    workdir, _, said = straight
    lines = said.splitlines()
    assert lines[0].startswith("vitzoo ")
    assert "cpu, 1 device, mesh data:1" in lines[0]
    assert "stripes train: 64 examples, 2 classes (across, down)" in lines[1]
    assert "parameters, images 8 × 8 × 1, 2 outputs" in lines[2]
    assert lines[3] == "loads   nothing: random parameters"
    assert lines[4] == f"writes  {workdir}"
    assert lines[5] == "trains  20 steps of 16 examples, 5 epochs"
    assert lines[6] == "saves   every 5 steps and at the end; the newest 2 and the best by test/loss stay"
    assert not lines[7].strip().startswith("warning")
    assert lines[-1].startswith(f"next    vitzoo predict --checkpoint {workdir}@best")


def test_metrics_are_logged_every_n_steps_and_at_the_end_with_examples_and_epoch(straight):
    train = [line for line in lines_of(straight[0]) if line["split"] == "train"]
    assert [line["step"] for line in train] == [3, 6, 9, 12, 15, 18, 20]
    assert (train[3]["examples"], train[3]["epoch"]) == (192, 3.0)  # 12 batches of 16, from 64 images
    assert {"loss", "accuracy", "learning_rate", "grad_norm", "skipped"} <= set(train[0])


def test_evaluations_count_every_example_once(straight):
    test = [line for line in lines_of(straight[0]) if line["split"] == "test"]
    assert [(line["step"], line["n"]) for line in test] == [(4, 20), (8, 20), (12, 20), (16, 20), (20, 20)]


def test_the_best_checkpoint_is_the_one_of_the_smallest_loss(straight):
    workdir, summary, _ = straight
    losses = {line["step"]: line["loss"] for line in lines_of(workdir) if line["split"] == "test"}
    best = min(losses, key=losses.get)
    assert summary["best"] == {"step": best, "value": losses[best]}
    assert locate(f"{workdir}@best").step == best


def test_a_checkpoint_says_all_that_a_user_of_it_needs(straight):
    description = locate(straight[0]).description
    assert description["model"]["name"] == "vit"
    assert (description["model"]["num_classes"], description["model"]["image_size"]) == (2, [8, 8])
    assert description["inputs"]["image"]["size"] == [8, 8]
    assert description["inputs"]["image"]["mean"] == [127.5]
    assert description["classes"] == ["across", "down"]
    assert (description["step"], description["examples"]) == (20, 320)
    assert description["data"]["fingerprint"]


def test_a_finished_run_does_nothing_more_and_needs_no_data(straight, monkeypatch):
    workdir, summary, _ = straight
    before = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file() and path.name != ".lock"}
    monkeypatch.setattr(setup, "prepare", None)
    again, said = run(workdir)
    assert "is finished (step 20); nothing to do" in said
    assert again == summary
    assert before == {p: p.stat().st_mtime_ns for p in workdir.rglob("*") if p.is_file() and p.name != ".lock"}


def dry(workdir, **changes):
    """What a dry run says, which must leave no trace."""
    before = {path: path.stat().st_mtime_ns for path in workdir.parent.rglob("*")}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        dry_run(resolve(config(**changes)), str(workdir))
    assert {path: path.stat().st_mtime_ns for path in workdir.parent.rglob("*")} == before
    return said.getvalue()


def test_a_dry_run_says_what_training_in_that_folder_would(straight, tmp_path, monkeypatch):
    assert f"{straight[0]} is finished (step 20): training would do nothing." in dry(straight[0])
    for changes, message in (
        ({"total_steps": 30}, r"total_steps = 30: this run was started with 20; a new workdir with --config\.init_"),
        ({"seed": 1}, "seed = 1: this run was started with 0; start a new workdir"),
    ):
        with pytest.raises(UserError, match=message):
            dry(straight[0], **changes)
    workdir = tmp_path / "run"
    assert f"writes  {workdir}" in dry(workdir)
    at_batch(monkeypatch, 2, send(signal.SIGTERM))
    run(workdir)
    said = dry(workdir, log={"every_steps": 10})
    assert f"loads   {workdir}, step 2" in said
    assert "changed log.every_steps: 3 → 10" in said
    with monkeypatch.context() as patch:
        patch.setattr(Stripes, "shifted", 1)
        with pytest.raises(UserError, match="the data have changed since this run began"):
            dry(workdir)
    file = next(path for path in (workdir / "checkpoints" / "2" / "params").rglob("*") if path.is_file())
    file.write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint verifies"):
        dry(workdir)


def test_a_disk_without_room_for_a_checkpoint_is_refused_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000))
    for way in (run, dry):
        with pytest.raises(UserError, match=r"a checkpoint takes 0\.\d MB, and 0\.0 MB are free"):
            way(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_the_training_is_too_short_for_is_remarked(tmp_path):
    assert "warning: profile = 20:22 begins after the end, step 20" in dry(tmp_path / "run", profile="20:22")


@pytest.mark.gate
def test_sigterm_saves_at_once_and_a_run_resumed_twice_ends_as_if_undisturbed(straight, tmp_path, monkeypatch):
    for batch, step in ((7, 7), (6, 13)):
        at_batch(monkeypatch, batch, send(signal.SIGTERM))
        summary, said = run(tmp_path / "run")
        assert (summary["exit_code"], summary["step"], summary["finished"]) == (75, step, False)
        assert "the same command resumes there" in said
    monkeypatch.undo()
    summary, said = run(tmp_path / "run")
    assert "resumed at step 13" in said
    assert summary["metrics"]["test"] == straight[1]["metrics"]["test"]
    assert_same_end(tmp_path / "run", straight[0])
    provenance = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert [one["step"] for one in provenance["resumed"]] == [7, 13]


def test_ctrl_c_saves_and_says_130(tmp_path, monkeypatch):
    at_batch(monkeypatch, 2, send(signal.SIGINT))
    summary, _ = run(tmp_path / "run")
    assert (summary["exit_code"], steps_of(tmp_path / "run")) == (130, [2])


@pytest.mark.slow
def test_a_signal_during_an_evaluation_cuts_it_and_the_resumed_run_makes_it_once(straight, tmp_path, monkeypatch):
    pass_ = records.Records._pass

    def interrupted(self, name, state, signals):
        os.kill(os.getpid(), signal.SIGTERM)
        return pass_(self, name, state, signals)

    monkeypatch.setattr(records.Records, "_pass", interrupted)
    assert run(tmp_path / "run")[0]["step"] == 4
    assert [line["split"] for line in lines_of(tmp_path / "run")] == ["train"]
    monkeypatch.undo()
    run(tmp_path / "run")
    assert_same_end(tmp_path / "run", straight[0])


@pytest.mark.gate
def test_a_crash_with_a_damaged_newest_checkpoint_goes_back_to_the_one_before(straight, tmp_path, monkeypatch, capsys):
    workdir = tmp_path / "run"
    at_batch(monkeypatch, 14, crash)
    with pytest.raises(Crash):
        run(workdir)
    monkeypatch.undo()
    newest = max(steps_of(workdir))
    file = max(
        (workdir / "checkpoints" / str(newest) / "params").rglob("*"), key=lambda p: p.stat().st_size * p.is_file()
    )
    file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1]))
    _, said = run(workdir)
    assert str(file) in capsys.readouterr().err
    assert f"resumed at step {newest}" not in said
    assert_same_end(workdir, straight[0])
    lost = [json.loads(line)["step"] for line in (workdir / "metrics.lost.jsonl").read_text().splitlines()]
    assert max(lost) == 12  # the last line written before the crash at step 13


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import jax
from striped import config
from vitzoo.parallel import mesh
from vitzoo.training import loop
mesh.devices = lambda platform: jax.devices()[:1]
put, seen = loop.put, []
def counting(batch, mesh):
    seen.append(batch)
    if len(seen) == {batch}:
        os.kill(os.getpid(), signal.SIGKILL)
    return put(batch, mesh)
loop.put = counting
loop.train(config(), {workdir!r})
"""


@pytest.mark.slow
def test_kill_9_in_another_process_and_a_resume_in_a_third_end_bitwise_equal(straight, tmp_path):
    workdir = tmp_path / "run"

    def process(batch):
        script = KILLED.format(tests=os.path.dirname(__file__), batch=batch, workdir=str(workdir))
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert process(batch=14).returncode == -signal.SIGKILL
    assert max(steps_of(workdir)) < 20
    done = process(batch=-1)
    assert done.returncode == 0, done.stderr
    assert_same_end(workdir, straight[0])


@pytest.mark.slow
def test_another_meaning_is_refused_with_both_values_and_another_execution_recorded(tmp_path, monkeypatch):
    at_batch(monkeypatch, 2, send(signal.SIGTERM))
    run(tmp_path)
    with pytest.raises(UserError, match=r"seed = 1: this run was started with 0"):
        run(tmp_path, seed=1)
    monkeypatch.undo()
    _, said = run(tmp_path, log={"every_steps": 10})
    assert "changed log.every_steps: 3 → 10" in said
    assert json.loads((tmp_path / "config.json").read_text())["log"]["every_steps"] == 10
    assert json.loads((tmp_path / "config.before-2.json").read_text())["log"]["every_steps"] == 3
    assert [line["step"] for line in lines_of(tmp_path) if line["split"] == "train"] == [10, 20]


def test_changed_data_is_refused(tmp_path, monkeypatch):
    at_batch(monkeypatch, 2, send(signal.SIGTERM))
    run(tmp_path)
    monkeypatch.setattr(Stripes, "shifted", 1)
    with pytest.raises(UserError, match="the data have changed since this run began"):
        run(tmp_path)


@pytest.mark.gate
def test_a_step_that_is_not_finite_stops_the_run_before_anything_of_it_is_saved(tmp_path, monkeypatch):
    at_batch(monkeypatch, 5, poison)
    with pytest.raises(RunError, match=r"step 5: loss nan.*non_finite = stop"):
        run(tmp_path, non_finite="stop")
    assert steps_of(tmp_path) == [4]  # the best so far; nothing of step 5, where a checkpoint was due


@pytest.mark.gate
def test_a_step_that_is_not_finite_is_skipped_and_counted(tmp_path, monkeypatch):
    at_batch(monkeypatch, 5, poison)
    summary, _ = run(tmp_path)
    train = [line for line in lines_of(tmp_path) if line["split"] == "train"]
    assert [line["skipped"] for line in train] == [0, 1, 1, 1, 1, 1, 1]
    assert all(np.isfinite(line["loss"]) for line in train)
    assert metadata.read_loop(tmp_path / "checkpoints" / "20")["updates"] == 19
    assert summary["finished"]


@pytest.mark.gate
def test_a_run_none_of_whose_steps_was_finite_has_failed(tmp_path, monkeypatch):
    put = loop.put
    monkeypatch.setattr(loop, "put", lambda batch, mesh: put(poison(batch), mesh))
    with pytest.raises(RunError, match="not finite in any of the 3 steps, so that nothing was learned"):
        run(tmp_path, total_epochs=None, total_steps=3)


@pytest.mark.gate
def test_a_checkpoint_is_saved_when_due_with_evaluation_off(tmp_path, monkeypatch):
    at_batch(monkeypatch, 5, crash)
    with pytest.raises(Crash):
        run(tmp_path, evaluate={"test": None}, checkpoint={"every_steps": 3, "keep_best": ""})
    assert steps_of(tmp_path) == [3]


@pytest.mark.parametrize(
    ("field", "changes"), [("mesh", {"mesh": "data:3"}), ("data", {"data": {"name": "striped:Stripes", "split": "x"}})]
)
def test_a_refused_start_leaves_no_folder(tmp_path, field, changes):
    with pytest.raises(UserError, match=field):
        run(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_another_program_is_refused(tmp_path):
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(UserError, match=r"holds photo\.jpg"):
        run(tmp_path)
    assert Path(tmp_path / "photo.jpg").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"evaluate": {"test": {"split": "validation"}}},
            r"evaluate\.test\.split = validation: no split .*; add --config\.evaluate\.test\.split=test$",
        ),
        ({"checkpoint": {"keep_best": "test/f1_micro"}}, r"these data give no f1_micro; take one of test/accuracy, "),
        ({"model": {"num_classes": 1}}, r"model\.num_classes = 1: the data have \d+ classes; leave it out"),
    ],
)
def test_what_does_not_fit_the_data_is_refused_before_the_first_step(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("what", ["moved", pytest.param("deleted", marks=pytest.mark.slow)])
def test_a_run_whose_folder_is_moved_or_deleted_meanwhile_fails_and_makes_no_new_one(what, tmp_path, monkeypatch):
    workdir, away = tmp_path / "run", tmp_path / "away"

    def act(batch):
        workdir.rename(away)
        if what == "deleted":
            shutil.rmtree(away)

    at_batch(monkeypatch, 3, act)
    with pytest.raises(RunError, match=r"run was moved, deleted or replaced while this run was writing to it"):
        run(workdir)
    assert not workdir.exists()
    assert away.exists() == (what == "moved")


@pytest.mark.gate
@pytest.mark.parametrize("name", ["metrics.jsonl", "config.json", "provenance.json", "events.out.*"])
def test_a_file_of_the_run_that_is_deleted_meanwhile_is_a_failure_that_names_it(name, tmp_path, monkeypatch):
    workdir = tmp_path / "run"

    def act(batch):
        for file in workdir.glob(name):
            file.unlink()
            if name.startswith("metrics"):
                file.touch()  # another in its place

    at_batch(monkeypatch, 3, act)
    what = "run" if name == "provenance.json" else f"run/{name.replace('*', '.*')}"
    with pytest.raises(RunError, match=rf"{what} was moved, deleted or replaced while this run was writing to it"):
        run(workdir, log={"every_steps": 1, "tensorboard": name == "events.out.*"})


@pytest.mark.gate
def test_a_last_checkpoint_that_is_gone_at_the_end_is_a_failure(tmp_path, monkeypatch):
    workdir, wait = tmp_path / "run", Store.wait

    def waits(store):
        wait(store)
        for folder in (workdir / "checkpoints").glob("[0-9]*"):
            shutil.rmtree(folder)

    monkeypatch.setattr(Store, "wait", waits)
    with pytest.raises(RunError, match=r"checkpoints/\d+ was moved, deleted or replaced"):
        run(workdir)
