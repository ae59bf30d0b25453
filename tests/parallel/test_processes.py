"""Several processes: how they find each other, and that they train as one does."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest
import train_together
from families import FAMILIES, STEPS, evaluators_of, write_texts

from vitzoo.checkpoints import manifest, metadata
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.config.fields import check_same
from vitzoo.errors import RunError, UserError
from vitzoo.parallel import mesh as meshes
from vitzoo.parallel import processes
from vitzoo.parallel.cluster import Cluster, cluster_of, is_one_of_several

sys.path.append(str(Path(__file__).parents[2] / "scripts" / "drills"))
import common

HERE = Path(__file__).parent
BY_HAND = HERE.parents[1] / "scripts" / "launch" / "by_hand.sh"

SRUN = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
MPIRUN = {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:1"}
SLICE = {"TPU_WORKER_ID": "0"}


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        (SRUN | {"SLURM_NTASKS": "2"}, True),
        (SRUN | {"SLURM_NTASKS": "1"}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}, False),  # the batch script itself, outside srun
        (MPIRUN | {"OMPI_COMM_WORLD_SIZE": "2"}, True),
        (MPIRUN | {"OMPI_COMM_WORLD_SIZE": "1"}, False),
        (SLICE | {"TPU_WORKER_HOSTNAMES": "a,b"}, True),
        (SLICE | {"TPU_WORKER_HOSTNAMES": "a"}, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),  # a pod alone says nothing of others
    ],
)
def test_the_environment_says_whether_there_are_other_tasks(environment, several):
    assert is_one_of_several(environment) is several
    assert (cluster_of(None, None, None, None, environment) == Cluster()) is several


def test_flags_win_over_the_environment():
    environment = SRUN | {"SLURM_NTASKS": "2"}
    assert cluster_of("h:1", 3, 2, None, environment) == Cluster("h:1", 3, 2)
    assert cluster_of(None, None, None, False, environment) is None
    assert cluster_of(None, None, None, True, {}) == Cluster()
    assert cluster_of("h:1", 1, 0, None, {}) is None  # one process needs no other


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (("h:1", None, None), "--coordinator"),
        ((None, 2, None), "--num-processes"),
        ((None, None, 0), "--process-id"),
        ((None, 2, 1), "--num-processes"),
        (("h:0", 2, 0), "--coordinator"),
        (("h:65536", 2, 0), "--coordinator"),
        (("h:1", None, 0), "--coordinator"),
        (("h:1", 2, None), "--coordinator"),
        (("h", 2, 0), "--coordinator"),
        (("h:port", 2, 0), "--coordinator"),
        (("", 2, 0), "--coordinator"),
        (("h:1", 2, 2), "--process-id"),
    ],
)
def test_flags_that_name_no_set_of_processes_are_refused(given, field):
    with pytest.raises(UserError) as refused:
        cluster_of(*given, None, {})
    assert refused.value.field == field


@pytest.mark.parametrize("flags", [["--coordinator", "h:1"], ["--num-processes", "0"], ["--process-id", "-1"]])
@pytest.mark.parametrize("command", ["train", "eval"])
def test_a_command_refuses_them_in_one_line_before_any_work(command, flags, tmp_path, capsys):
    assert main([command, "--workdir", str(tmp_path / "run"), *flags]) == 2
    assert re.fullmatch(rf"vitzoo: {flags[0]} = .*\n", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_a_single_process_agrees_with_itself():
    assert processes.first(lambda: 3) == 3
    assert processes.gather("one") == ["one"]
    assert (processes.count(), processes.index(), processes.is_first()) == (1, 0, True)
    with processes.first_alone():
        pass
    with pytest.raises(UserError), processes.first_alone():
        raise UserError("field", 1, "message")


@pytest.mark.parametrize("value", [None, 7, "process 3 on n1", True, [1, "two"]])
def test_what_process_0_found_out_reaches_the_others_as_it_is(value):
    assert processes.unpacked(processes.packed(value)) == value


def test_so_does_why_it_found_nothing():
    refused = UserError("workdir", Path("runs/a"), "is in use")
    with pytest.raises(UserError) as told:
        processes.unpacked(processes.packed(None, refused))
    assert (str(told.value), told.value.field, told.value.value) == (str(refused), "workdir", "runs/a")
    failed = RunError("disk full")
    failed.exit_code = 2
    with pytest.raises(RunError, match="disk full") as told:
        processes.unpacked(processes.packed(None, failed))
    assert told.value.exit_code == 2


def test_what_is_read_from_the_coordinator_is_never_executed(capsys):
    command = b"cbuiltins\nprint\n(Vexecuted\ntR."  # a pickle that prints
    with pytest.raises(ValueError, match="Expecting value"):
        processes.unpacked(command)
    assert capsys.readouterr().out == ""


@pytest.mark.gate
@pytest.mark.parametrize(
    ("host", "index", "why"),
    [
        ("127.0.0.1", 0, ""),
        pytest.param("no.such.host.invalid", 1, "(no.such.host.in", marks=pytest.mark.slow),
    ],
)
def test_whoever_waits_in_vain_for_the_others_says_so_and_ends(host, index, why):
    code = "from vitzoo.parallel import cluster; cluster.SAY_SECONDS, cluster.JOIN_SECONDS = 1, 3\n"
    code += f"with cluster.joined(cluster.Cluster('{host}:{common.free_port()}', 2, {index}), preemption=False): pass"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=common.environment()
    )
    assert done.returncode == 1
    waits, ends = [line for line in done.stderr.splitlines() if line.startswith("vitzoo: ")]
    assert waits.startswith(f"vitzoo: process {index} waits for the others at {host}:")
    assert ", 3 s at most" in waits
    assert "the others did not all come within 3 s" in ends
    assert why in waits
    assert why in ends


def test_ctrl_c_ends_at_once_whoever_waits_for_the_others():
    code = "from vitzoo.parallel import cluster; cluster.SAY_SECONDS = 0.1\n"
    code += f"with cluster.joined(cluster.Cluster('127.0.0.1:{common.free_port()}', 2, 0), preemption=False): pass"
    waiting = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=common.environment()
    )
    while "waits for the others" not in waiting.stderr.readline():
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(5) == -signal.SIGINT


def one_of(values, monkeypatch):
    """As one of several processes that were given these settings and flags."""
    monkeypatch.setattr(processes, "count", lambda: len(values))
    monkeypatch.setattr(processes, "gather", lambda own: json.loads(json.dumps(values)))


def test_processes_with_other_settings_are_refused(monkeypatch):
    settings = [resolve("quickstart").values, resolve("quickstart", overrides=["data.dir=/elsewhere"]).values]
    one_of([[values, {"--shots": None}] for values in settings], monkeypatch)
    check_same(settings[0])  # data may lie elsewhere
    for change in ("seed=7", "optimizer.learning_rate=0.1", "data.batch_size=64", "mesh=fsdp:2", "remat=full"):
        other = resolve("quickstart", overrides=[change]).values
        one_of([[settings[0], {}], [settings[0], {}], [other, {}]], monkeypatch)
        name, _, value = change.partition("=")
        with pytest.raises(
            UserError, match=f"^{name} = .*: process 2 has {value}; give all processes the same settings$"
        ):
            check_same(settings[0])
    one_of([[settings[0], {"--weights": "ema"}], [settings[0], {"--weights": "raw"}]], monkeypatch)
    with pytest.raises(UserError, match="--weights = ema: process 1 has raw"):
        check_same(settings[0])


def launch(count: int, devices: int, command: list[str]) -> subprocess.CompletedProcess:
    """A command as several processes."""
    settings = common.environment(devices) | {"RESTARTS": "0"}
    done = subprocess.run(
        [str(BY_HAND), str(count), sys.executable, *command], capture_output=True, text=True, env=settings, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def train_as(count: int, devices: int, folder: Path, family: str, texts: Path) -> subprocess.CompletedProcess:
    """The training of `train_together` as several processes."""
    return launch(count, devices, [str(HERE / "train_together.py"), str(folder), family, str(texts)])


@pytest.fixture(scope="module", params=FAMILIES)
def alone(request, tmp_path_factory):
    """The training by one process with one device: its family, folder and texts."""
    texts = write_texts(tmp_path_factory.mktemp("texts"))
    folder, patch = tmp_path_factory.mktemp("alone") / request.param, pytest.MonkeyPatch()
    patch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:1])
    train_together.train(folder, request.param, texts)
    patch.undo()
    return request.param, folder, texts


@pytest.fixture(scope="module")
def together(alone, tmp_path_factory):
    """By two processes with two devices each: the folder and what was printed."""
    family, _, texts = alone
    folder = tmp_path_factory.mktemp("together") / family
    return folder, train_as(2, 2, folder, family, texts)


@pytest.mark.slow
def test_two_processes_have_the_losses_and_evaluations_of_one(alone, together):
    assert common.step_of(together[0]) == STEPS
    assert common.differences(alone[1], together[0]) == []


@pytest.mark.slow
def test_what_two_processes_save_is_whole_and_one_reads_it(alone, together):
    assert common.saved(together[0]) == common.saved(alone[1])
    folders = [run / "checkpoints" / str(STEPS) for run in (alone[1], together[0])]
    manifest.verify(folders[1])
    left, right = (metadata.read_loop(folder) for folder in folders)
    assert (left["step"], left["updates"], left["evaluated"]) == (right["step"], right["updates"], right["evaluated"])
    shapes = [jax.tree.map(lambda leaf: leaf.shape, read_arrays(folder / "optimizer")) for folder in folders]
    assert shapes[0] == shapes[1]


@pytest.mark.slow
def test_only_process_0_prints(together):
    _, done = together
    assert done.stdout.count("4 devices of 2 processes, mesh fsdp:4") == 1
    assert done.stdout.count("done    ") == 1
    assert "Gloo" not in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_one_that_compiles_for_long_is_waited_for():
    assert launch(2, 1, [str(HERE / "compile_late.py")]).stdout == "sum 3\n"


@pytest.mark.slow
def test_two_processes_measure_a_checkpoint_as_one_did(alone, tmp_path):
    done = launch(2, 1, ["-m", "vitzoo", "eval", "--checkpoint", str(alone[1]), "--output", str(tmp_path), "--json"])
    measured = json.loads(done.stdout.splitlines()[-1])["results"]
    trained = {line["split"]: line for line in common.lines_of(alone[1]) if line["split"] in measured}
    assert trained.keys() == measured.keys() == evaluators_of(alone[0]).keys()
    for name, result in measured.items():
        assert trained[name]["n"] == result["n"]
        assert {key: trained[name][key] for key in result["metrics"]} == pytest.approx(result["metrics"], rel=1e-5)


@pytest.mark.slow
def test_four_processes_have_the_losses_of_one(alone, tmp_path):
    family, straight, texts = alone
    train_as(4, 1, tmp_path / family, family, texts)
    assert common.differences(straight, tmp_path / family) == []
