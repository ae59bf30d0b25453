"""Who may use a run folder, and that its records survive a kill."""

import errno
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import masked_crc32c

from vitzoo.config.experiment import Log
from vitzoo.errors import Failed, Refused
from vitzoo.training import curves, metrics, run_folder
from vitzoo.training.events import Events
from vitzoo.training.metrics import Metrics
from vitzoo.training.profiler import Profiler
from vitzoo.training.signals import Signals

HOLD = """
import sys, time
from pathlib import Path
from vitzoo.training.run_folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def enter(workdir):
    with run_folder.locked(workdir):
        return True


def test_a_folder_in_use_by_another_process_is_refused_and_free_once_that_is_killed(tmp_path):
    workdir = tmp_path / "run"
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(workdir)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Refused, match=rf"is in use by process {other.pid} on .* since "):
            enter(workdir)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert enter(workdir)


def test_a_folder_in_use_by_this_process_is_refused_too(tmp_path):
    with run_folder.locked(tmp_path), pytest.raises(Refused, match="in use by this very process"):
        enter(tmp_path)
    assert enter(tmp_path)


def test_a_folder_that_holds_something_else_is_refused_untouched(tmp_path):
    (tmp_path / "thesis.doc").write_text("")
    with pytest.raises(Refused, match=r"holds thesis\.doc and no config\.json"):
        enter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.doc"]


def test_a_log_that_the_shell_already_writes_there_is_no_obstacle(tmp_path):
    (tmp_path / "slurm-17.out").write_text("")
    assert enter(tmp_path)


def test_a_file_and_a_place_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="is a file"):
        enter(tmp_path / "file")
    with pytest.raises(Refused, match="can't be written"):
        enter(Path("/sys/run"))  # read-only for everyone, also for root


def test_a_file_being_replaced_is_never_half_written(tmp_path, monkeypatch):
    run_folder.write_json(tmp_path / "config.json", {"seed": 0})
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed here")))
    with pytest.raises(OSError, match="killed here"):
        run_folder.write_json(tmp_path / "config.json", {"seed": 1})
    assert run_folder.read_config(tmp_path) == {"seed": 0}


def test_a_full_disk_ends_the_run_with_its_cause(tmp_path):
    def fill():
        with run_folder.locked(tmp_path / "run"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Failed, match=r"run: No space left on device"):
        fill()


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


def test_weights_and_biases_that_is_not_installed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(Refused, match=r"vitzoo\[wandb\]"):
        Metrics(tmp_path, 0, Log(wandb=True))


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
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert curves.draw(tmp_path).read_bytes().startswith(b"\x89PNG")


def test_signals_ask_for_an_end_and_a_second_ctrl_c_leaves_at_once(monkeypatch):
    with Signals() as signals:
        assert signals.exit_code is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.exit_code == 75
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert (signals.exit_code, left) == (130, [])
        os.kill(os.getpid(), signal.SIGINT)
        assert left == [130]
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # at a prompt the process stays
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
