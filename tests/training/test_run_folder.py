"""What a run folder records, and that it survives a kill."""

import importlib.util
import json
import os
import shutil
import signal
import struct
import sys
from types import SimpleNamespace

import jax
import pytest
from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import masked_crc32c

from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.config.experiment import Log
from vitzoo.errors import RunError, UserError
from vitzoo.training import curves, metrics, run_folder
from vitzoo.training.header import unsaved
from vitzoo.training.metrics import Events, Metrics, check_log
from vitzoo.training.saving import Signals
from vitzoo.training.speed import Profiler


def test_a_file_being_replaced_is_never_half_written(tmp_path, monkeypatch):
    run_folder.write_json(tmp_path / "config.json", {"seed": 0})
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed here")))
    with pytest.raises(OSError, match="killed here"):
        run_folder.write_json(tmp_path / "config.json", {"seed": 1})
    assert run_folder.read_config(tmp_path) == {"seed": 0}


def test_provenance_holds_the_first_start_and_every_resume(tmp_path):
    run_folder.begin(tmp_path, {"seed": 0}, 0, {}, "cpu, 1 device")
    run_folder.begin(tmp_path, {"seed": 0}, 10, {}, "cpu, 1 device")
    content = json.loads((tmp_path / "provenance.json").read_text())
    assert {"command", "versions", "git", "host", "device", "started"} <= set(content)
    assert (content["step"], [one["step"] for one in content["resumed"]]) == (0, [10])


def test_lines_after_the_checkpoint_move_away_and_a_cut_line_with_them(tmp_path):
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "seconds": step / 2, "split": "train"}) for step in (5, 10, 15)]
    file.write_text("\n".join(lines) + '\n{"step": 20, "spl')
    assert metrics.set_back(tmp_path, 10) == 5.0
    assert file.read_text().splitlines() == lines[:2]
    assert (tmp_path / "metrics.lost.jsonl").read_text().splitlines() == [lines[2], '{"step": 20, "spl']


@pytest.mark.parametrize(
    "broken",
    [
        b'{"step": 7, "split": "\xff"}',
        b'{"step": "7", "split": "val"}',
        b'{"step": 7}',
        b'{"step": 7, "split": ["a"]}',
        b"7",
        b'{"step": -7, "split": "val"}',
        b'{"step": true, "split": "val"}',
        b'{"step": 7, "split": "train", "seconds": "9"}',
        b'{"step": 7, "split": "train", "epoch": null}',
        b'{"step": 7, "split": "val", "n": [5]}',
        b'{"step": 7, "split": "val", "loss": 1e999}',
        b'{"step": 7, "split": "val", "n": ' + b"9" * 5000 + b"}",
        b'{"step": 1' + b"0" * 400 + b', "split": "val"}',
        b'{"step": 7, "split": "train", "goodput": 5}',
        b'{"step": 7, "split": "val", "loss": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"step": 7, "split": "val", "loss": {"a": {"b": {"c": 1}}}}',
        b"\x00\x00\x00",
    ],
    ids=range(17),
)
def test_a_line_that_is_none_of_ours_is_not_read_moves_away_as_it_is_and_is_said(tmp_path, broken, capsys):
    file, line = tmp_path / "metrics.jsonl", b'{"step": 5, "split": "train", "loss": 1.5}'
    file.write_bytes(line + b"\n" + broken + b"\n")
    assert metrics.read(tmp_path) == [{"step": 5, "split": "train", "loss": 1.5}]
    metrics.set_back(tmp_path, 10)
    assert file.read_bytes() == line + b"\n"
    assert (tmp_path / "metrics.lost.jsonl").read_bytes() == broken + b"\n"
    assert capsys.readouterr().err == f"warning: 1 damaged line of {file} moved to metrics.lost.jsonl (line 2)\n"


def test_of_many_damaged_lines_the_first_are_said_and_one_that_a_kill_cut_off_is_not(tmp_path, capsys):
    file = tmp_path / "metrics.jsonl"
    file.write_text("?\n" * 7 + '{"step": 5, "split": "train"}\n{"step": 6, "sp')
    metrics.warn_of_damage(tmp_path, "left out")
    assert capsys.readouterr().err == f"warning: 7 damaged lines of {file} left out (lines 1, 2, 3, 4, 5 and 2 more)\n"
    file.write_text('{"step": 5, "split": "train"}\n{"step": 6, "sp')
    metrics.warn_of_damage(tmp_path, "left out")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("what", ["moved", "deleted", "replaced", "made anew without a run"])
def test_a_folder_that_is_no_longer_the_runs_is_a_failure(what, tmp_path):
    workdir = tmp_path / "run"
    workdir.mkdir()
    begun = run_folder.begin(workdir, {"seed": 0}, 0, {}, "cpu, 1 device")
    run_folder.check_there(workdir, begun, 3)
    workdir.rename(tmp_path / "away")
    if what == "replaced":
        workdir.mkdir()
        run_folder.begin(workdir, {"seed": 0}, 0, {}, "cpu, 2 devices")
    elif what == "made anew without a run":
        (workdir / "checkpoints").mkdir(parents=True)
    elif what == "deleted":
        shutil.rmtree(tmp_path / "away")
    with pytest.raises(RunError, match=r"run was moved, deleted or replaced .*: stopped at step 1,234; what was saved"):
        run_folder.check_there(workdir, begun, 1234)
    for error in (RunError("checkpoint 5 could not be saved"), OSError(2, "No such file or directory")):
        with (
            pytest.raises(RunError, match=r"stopped at step 1,234"),
            run_folder.told_if_gone(workdir, begun, lambda: 1234),
        ):
            raise error


def test_a_number_that_is_not_finite_is_null_in_the_file(tmp_path):
    writer = Metrics(tmp_path, 0, Log())
    writer.evaluation(1, "val", {"n": 5, "loss": float("nan")})
    writer.close()
    assert metrics.read(tmp_path) == [{"step": 1, "split": "val", "n": 5, "loss": None}]


def test_tensorboard_events_are_records_with_checksums_and_drop_what_was_lost(tmp_path):
    events = Events(tmp_path, step=3)
    events.write(4, {"train/loss": 0.5})
    events.close()
    (file,) = tmp_path.glob("events.out.tfevents*")
    content, found = file.read_bytes(), []
    while content:  # a TFRecord: length, its checksum, data, its checksum
        (length,) = struct.unpack("<Q", content[:8])
        data = content[12 : 12 + length]
        assert struct.unpack("<I", content[12 + length : 16 + length])[0] == masked_crc32c(data)
        found.append(event_pb2.Event.FromString(data))
        content = content[16 + length :]
    assert [one.step for one in found] == [0, 4, 4]
    assert found[0].file_version == "brain.Event:2"
    assert found[1].session_log.status == event_pb2.SessionLog.START  # from step 4 on this file counts
    assert found[2].summary.value[0].tag == "train/loss"
    assert found[2].summary.value[0].simple_value == 0.5


def test_weights_and_biases_gets_the_numbers_and_the_same_run_when_resumed(tmp_path, monkeypatch):
    calls = []
    run = SimpleNamespace(log=lambda values, step: calls.append((step, values)), finish=lambda: None)
    fake = SimpleNamespace(init=lambda **options: calls.append(options) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for _ in range(2):
        writer = Metrics(tmp_path, 0, Log(wandb=True, tensorboard=False, wandb_project="digits"))
        writer.evaluation(1, "val", {"n": 5, "loss": 0.5})
        writer.close()
    first, line, second, _ = calls
    assert first == second
    assert (first["project"], first["resume"]) == ("digits", "allow")
    assert line == (1, {"val/n": 5, "val/loss": 0.5})


def test_a_profile_traces_the_steps_asked_for(tmp_path):
    profiler = Profiler("1:2", tmp_path)
    for step in range(3):
        profiler.before(step)
        jax.numpy.ones(3).block_until_ready()
    profiler.close()
    assert list((tmp_path / "profile").rglob("*.xplane.pb"))


def test_weights_and_biases_that_is_not_installed_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "wandb" else found(name, *_))
    with pytest.raises(UserError, match=r"^log.wandb = True: Weights & Biases is missing; .*the extra `wandb`"):
        check_log(Log(wandb=True))
    workdir = tmp_path / "run"
    for flags in ([], ["--dry-run"]):
        command = ["train", "--config", "quickstart", "--workdir", str(workdir), "--config.log.wandb=true", *flags]
        assert main(command) == 2
        assert "log.wandb = True: Weights & Biases is missing" in capsys.readouterr().err
        assert not workdir.exists()


def test_curves_have_a_panel_for_each_metric_and_a_line_for_each_split(tmp_path):
    lines = [
        {"step": 5, "split": "train", "loss": 2.0, "seconds": 1.0},
        {"step": 5, "split": "val", "n": 8, "loss": 1.5, "accuracy": 0.5},
        {"step": 10, "split": "train", "loss": None},
    ]
    assert curves.collect(lines) == {
        "loss": {"train": ([5], [2.0]), "val": ([5], [1.5])},
        "accuracy": {"val": ([5], [0.5])},
    }
    assert curves.last(lines) == {"train/loss": (10, None), "val/loss": (5, 1.5), "val/accuracy": (5, 0.5)}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert curves.draw(tmp_path).read_bytes().startswith(b"\x89PNG")


def test_signals_ask_for_an_end_and_a_second_ctrl_c_ends_at_once_and_says_what_is_lost(monkeypatch, capsys):
    with Signals() as signals:
        assert signals.poll() is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert (signals.poll(), signals.exit_code) == (75, 75)
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    with Signals() as signals:
        signals.unsaved = lambda: "7 steps are lost"
        os.kill(os.getpid(), signal.SIGINT)
        assert (signals.poll(), left) == (130, [])
        os.kill(os.getpid(), signal.SIGINT)
        assert left == [130]
        assert capsys.readouterr().err.splitlines()[1:3] == [
            "SIGINT: saving a checkpoint (Ctrl-C again ends at once, without saving)",
            "SIGINT: ends at once, without saving: 7 steps are lost",
        ]
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # at a prompt the process stays
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_what_leaving_at_once_loses_is_counted_from_the_newest_checkpoint(tmp_path):
    assert unsaved(tmp_path, 12) == "nothing is saved yet, and the same command starts again"
    for step in (5, 10):
        (tmp_path / "checkpoints" / str(step)).mkdir(parents=True)
    assert unsaved(tmp_path, 12) == "the same command resumes at step 10, and 2 steps of 12 are lost"
    assert unsaved(tmp_path, 11).endswith("1 step of 11 are lost")


def test_a_longer_or_shorter_training_in_the_same_folder_is_told_how_to_go_on(tmp_path):
    values = resolve("quickstart", overrides=["total_epochs=15"]).values
    run_folder.write_json(tmp_path / "config.json", values)
    remedy = f"a new workdir with --config.init_from={tmp_path} --config.init_from_state=true goes on from it"
    assert run_folder.check_config(tmp_path, values) == {}
    for override, said in (
        ("total_epochs=30", "total_epochs = 30.0: this run was started with 15.0; "),
        ("total_steps=9", "total_steps = 9: this run was started with total_epochs = 15.0; "),
    ):
        with pytest.raises(UserError) as refusal:
            run_folder.check_config(tmp_path, resolve("quickstart", overrides=[override]).values)
        assert str(refusal.value) == said + remedy
    with pytest.raises(UserError, match=r"started with seed = 0, total_epochs = 15.0; start a new workdir for another"):
        run_folder.check_config(tmp_path, resolve("quickstart", overrides=["total_epochs=30", "seed=1"]).values)


def test_a_run_of_an_earlier_version_resumes_with_the_defaults_of_what_that_lacked(tmp_path):
    values = resolve("quickstart").values
    run_folder.write_json(tmp_path / "config.json", {key: value for key, value in values.items() if key != "min_steps"})
    assert run_folder.check_config(tmp_path, values) == {}
