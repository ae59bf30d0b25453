"""How commands begin and end: flags are read, and whatever goes wrong is one line and the right exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vitzoo.cli import main
from vitzoo.cli.arguments import Parser, expand_flagfiles, split_overrides
from vitzoo.cli.output import last_line
from vitzoo.errors import RunError, UserError
from vitzoo.inference import predict as inference
from vitzoo.training import loop


@pytest.fixture
def trained(monkeypatch):
    """Replaces the training; holds what it was called with, and ends as `trained.end` says."""

    class Trained:
        end: object = {"exit_code": 0}
        config, workdir = None, None

        def __call__(self, config, workdir):
            self.config, self.workdir = config, workdir
            if isinstance(self.end, BaseException):
                raise self.end
            return self.end

    stand_in = Trained()
    monkeypatch.setattr(loop, "train", stand_in)
    return stand_in


TRAIN = ["train", "--config", "quickstart", "--workdir", "runs/x"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["trian"], "vitzoo: command = trian: no such command; did you mean train?"),
        (["train"], "vitzoo: --workdir: must be given: the folder for the run's metrics and checkpoints"),
        (["train", "--workdir", "runs/none"], "vitzoo: --config: must be given: a config file or a name"),
        (["train", "--wrokdir=x"], "vitzoo: --wrokdir: no such argument of vitzoo train; did you mean --workdir?"),
        (["eval", "--checkpont=x"], "vitzoo: --checkpont: no such argument of vitzoo eval; did you mean --checkpoint?"),
        (["predict", "--checkpont", "x", "y"], "vitzoo: --checkpont: no such argument of vitzoo predict; did you mean"),
        ([*TRAIN, "--epochs", "5"], "vitzoo: --epochs: no such argument of vitzoo train; did you mean --config.total_"),
        ([*TRAIN, "--lr=1e-3"], "vitzoo: --lr: no such argument of vitzoo train; did you mean --config.optimizer."),
        ([*TRAIN, "--model", "gpt"], "vitzoo: --model: no such argument of vitzoo train; did you mean --config.model."),
        ([*TRAIN, "--data", "digits"], "vitzoo: --data: no such argument of vitzoo train; did you mean --config.data."),
        ([*TRAIN, "--depth", "2"], "vitzoo: --depth: no such argument of vitzoo train; did you mean --config.model."),
        ([*TRAIN, "--resume"], "vitzoo: --resume: no such argument of vitzoo train; settings are written --config.KEY"),
        (["eval", "--split=test"], "vitzoo: --split: no such argument of vitzoo eval; did you mean --config.data.spli"),
        (["data", "check", "x", "--seed=1"], "vitzoo: --seed: no such argument of vitzoo data check; settings are wr"),
        (["models", "--seed=1"], "vitzoo: --seed: no such argument of vitzoo models; known: --debug, --flagfile, --he"),
        (["train", "more"], "vitzoo: more: no such argument of vitzoo train; did you mean --config more?"),
        (
            ["train", "--config", "quickstart", "x"],
            "vitzoo: x: no such argument of vitzoo train; see vitzoo train --help",
        ),
        (["train", "--workdir"], "vitzoo: --workdir: expected one argument"),
        (["train", "--flagfile=/none"], "vitzoo: --flagfile = /none: does not exist"),
        ([*TRAIN, "--config.total_steps=1e3"], "vitzoo: total_steps = 1e3: must be an integer (written out: 1000)"),
        ([*TRAIN, "--config.wieght_decay=1"], "vitzoo: wieght_decay = 1: no such setting; did you mean optimizer."),
        ([*TRAIN, "--config.augment.flip=no"], "vitzoo: augment.flip = no: must be true or false"),
        ([*TRAIN, "--config.seed"], "vitzoo: seed = true: must be an integer"),
        (["train", "--config", "quickstrat", "--workdir", "x"], "vitzoo: config = quickstrat: no such file, and no"),
        (["models", "--config.seed=1"], "vitzoo: --config.seed: `vitzoo models` takes no config settings"),
        (["models", "X/16"], "vitzoo: pattern = X/16: no such model"),
        *(
            (
                ["models", *flags, sign * 20_000],
                f"vitzoo: pattern = {sign * 40}... (20,000 characters): must be at most",
            )
            for sign in "[*?"
            for flags in ([], ["--pretrained"])
        ),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_2(arguments, line, capsys, trained):
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith(line)
    assert said.err.count("\n") == 1
    assert trained.config is None


def test_a_hint_holds_the_value_that_was_given(capsys, trained):
    for typed in (["--batch-size", "32"], ["--batch-size=32"]):
        assert main([*TRAIN, *typed]) == 2
        assert capsys.readouterr().err.endswith("did you mean --config.data.batch_size=32?\n")


def test_a_flag_is_refused_as_it_was_typed(capsys, monkeypatch):
    def absent(*_, **__):
        raise UserError("platform", "tpu", "no such device here; found cpu:1")

    monkeypatch.setattr(inference, "predict", absent)
    assert main(["predict", "--checkpoint", "runs/a", "x.png", "--platform", "tpu"]) == 2
    assert capsys.readouterr().err == "vitzoo: --platform = tpu: no such device here; found cpu:1\n"


def test_a_refusal_as_json_is_the_last_line_of_output(capsys, trained):
    assert main([*TRAIN, "--json", "--config.ema=2"]) == 2
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last) == {"error": {"field": "ema", "value": 2.0, "message": "must be at least 0 and below 1"}}


@pytest.mark.parametrize(
    ("end", "code", "line"),
    [
        ({"exit_code": 0}, 0, ""),
        ({"exit_code": 75}, 75, ""),
        ({"exit_code": 130}, 130, ""),
        (RunError("the loss is not finite at step 5"), 1, "vitzoo: the loss is not finite at step 5\n"),
        (UserError("workdir", "x", "is in use"), 2, "vitzoo: workdir = x: is in use\n"),
        (KeyboardInterrupt(), 130, "vitzoo: interrupted\n"),
        (RuntimeError("RESOURCE_EXHAUSTED: 3 GiB"), 1, "vitzoo: out of memory: lower data.batch_size, or raise "),
    ],
)
def test_every_way_to_end_has_its_exit_code(end, code, line, capsys, trained):
    trained.end = end
    assert main(TRAIN) == code
    assert capsys.readouterr().err.startswith(line)


def test_an_unforeseen_fault_is_one_line_that_says_where_the_trace_is(capsys, trained):
    trained.end = RuntimeError("two\nlines")
    assert main(TRAIN) == 1
    said = capsys.readouterr().err
    assert said.startswith("vitzoo: unexpected RuntimeError: two lines (the trace is in ")
    assert said.count("\n") == 1
    file = Path(re.search(r"in (\S+);", said)[1])
    assert "Traceback" in file.read_text()
    file.unlink()
    assert main([*TRAIN, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_settings_are_read_in_every_way_of_writing_them(tmp_path, trained, capsys):
    file = tmp_path / "flags"
    file.write_text("# more\n--config.optimizer.learning_rate=1e-4\n--config.data.workers 2\n--workdir runs/y\n\n")
    typed = [
        "--config.total_steps",
        "7",
        "--config.model.qk_norm",
        "--noconfig.log.tensorboard",
        "--config.seed=-0",
        "--json",
    ]
    code = main(["train", "--config=quickstart", f"--flagfile={file}", *typed])
    assert (code, trained.workdir) == (0, "runs/y")
    experiment = trained.config.experiment
    assert (experiment.optimizer.learning_rate, experiment.data.workers) == (1e-4, 2)
    assert (experiment.total_steps, experiment.log.tensorboard) == (7, False)
    assert experiment.model.config().qk_norm is True
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "config  total_steps replaces total_epochs = 120"
    assert json.loads(out[-1]) == {"exit_code": 0}


def test_a_run_is_resumed_from_its_own_config(tmp_path, trained):
    assert main([*TRAIN[:3], "--workdir", str(tmp_path), "--config.total_steps=9"]) == 0
    (tmp_path / "config.json").write_text(json.dumps(trained.config.values))
    before = trained.config.experiment
    assert main(["train", "--workdir", str(tmp_path)]) == 0
    assert trained.config.experiment == before


def test_what_follows_two_dashes_is_left_alone():
    assert split_overrides(["a", "--config.x=1", "--", "--config.y=2"]) == (["a", "--", "--config.y=2"], ["x=1"])


@pytest.mark.parametrize("name", ["-x.png", "--top", "--", "-", "a b"])
def test_what_follows_two_dashes_is_a_file(name):
    parser = Parser("vitzoo predict", "reads files", "")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--top")
    parsed = parser.parse(["first", "--top", "3", "--", name, "last"])
    assert (parsed.files, parsed.top) == (["first", name, "last"], "3")


def test_a_negative_value_may_follow_its_flag():
    assert split_overrides(["--config.x", "-5", "--config.y", "--json"]) == (["--json"], ["x=-5", "y=true"])


def test_flag_files_may_name_others(tmp_path):
    (tmp_path / "a").write_text(f"--flagfile={tmp_path}/b\n--json\n")
    (tmp_path / "b").write_text("// theirs\n--top=3\n")
    assert expand_flagfiles(["models", f"--flagfile={tmp_path}/a"]) == ["models", "--top=3", "--json"]


def test_a_flag_file_is_text_of_any_editor_and_never_read_within_itself(tmp_path):
    flags = tmp_path / "flags"
    flags.write_bytes("\ufeff--config.seed=1\r\n\r\n  --json\r\n".encode())  # as Windows writes it
    assert expand_flagfiles(["train", "--flagfile", str(flags), "--", "--flagfile=x"]) == [
        *("train", "--config.seed=1", "--json", "--", "--flagfile=x")
    ]
    for content, message in {
        b"\xff\xfe-": "is not UTF-8 text",
        f"--flagfile={flags}": "names itself",
        f"--flagfile {tmp_path}/none": "/none: does not exist",
        "--flagfile": "names nothing",
        "--top=\0": "holds a NUL character",
    }.items():
        flags.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(UserError, match=f"--flagfile = .*{message}"):
            expand_flagfiles(["train", f"--flagfile={flags}"])
    with pytest.raises(UserError, match="is a folder"):
        expand_flagfiles(["train", f"--flagfile={tmp_path}"])


def test_json_holds_no_nan():
    line = last_line({"metrics": {"loss": float("nan"), "n": 3, "best": (float("inf"), 0.5)}, "path": Path("runs")})
    assert json.loads(line) == {"metrics": {"loss": None, "n": 3, "best": [None, 0.5]}, "path": "runs"}


def test_help_names_the_commands_and_each_has_examples(capsys):
    assert main([]) == main(["--help"]) == 0
    said = capsys.readouterr().out
    for command in ("train", "eval", "predict", "models", "configs", "data"):
        assert f"  {command} " in said
        assert main([command, "--help"]) == 0
        assert f"vitzoo {command}" in capsys.readouterr().out.split("examples:")[1]


def test_it_runs_as_a_module_where_a_platform_that_is_absent_is_refused_before_anything_is_written(tmp_path):
    arguments = ["train", "--config", "quickstart", "--workdir", str(tmp_path / "run"), "--config.platform=gpu"]
    done = subprocess.run([sys.executable, "-m", "vitzoo", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("vitzoo: platform = gpu: no such device here; found cpu:")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_command_trains_with_worker_processes_and_a_flag_file(tmp_path):
    # Grain's workers need absl's flags, which a program of another parser leaves unparsed
    flags = tmp_path / "flags"
    flags.write_text("--config.data.workers=2\n--config.data.in_memory=never\n--config.optimizer.learning_rate=1e-4\n")
    run = ["train", "--config", "quickstart", "--workdir", str(tmp_path / "run"), "--config.total_steps=2"]
    done = subprocess.run(
        [sys.executable, "-m", "vitzoo", *run, f"--flagfile={flags}"], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["data"]["workers"], config["optimizer"]["learning_rate"]) == (2, 1e-4)


@pytest.mark.gate
def test_what_a_terminal_cannot_show_is_shown_by_its_number():
    command = [sys.executable, "-m", "vitzoo", "train", "--config", "quickstart", "--config.data.name=folder:é\033[1m"]
    done = subprocess.run(
        [*command, "--dry-run"], capture_output=True, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 2
    assert rb"/\xe9" in done.stdout
    assert rb"\xe9\x1b[1m is not a folder" in done.stderr
    assert b"\033" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_fault():
    command = f"{sys.executable} -m vitzoo configs | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code"), [(["train"], 75), (["sweep"], 75), (["train", "--dry-run"], -15), (["eval"], -15), ([], -15)]
)
def test_sigterm_before_a_training_begins_ends_it_with_75_and_a_line(arguments, code):
    # the code by which launchers know that they are to start it again; else a program's own, 128 + 15 in a shell
    program = (
        "import os, signal, sys\nfrom vitzoo.cli import entry\n"
        "entry._main = lambda arguments: os.kill(os.getpid(), signal.SIGTERM)\nentry.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    line = "vitzoo: SIGTERM: ends at once; nothing was to be saved, and the same command goes on\n"
    assert done.stderr == (line if code == 75 else "")
