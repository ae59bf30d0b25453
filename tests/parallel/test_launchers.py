"""The launchers, with stand-ins for what a cluster has: they start again what would go on, and nothing else."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from vitzoo.cli import main

LAUNCH = Path(__file__).parents[2] / "scripts" / "launch"

GCLOUD = """#!/usr/bin/env bash
# two machines that are processes here; `states` holds what describe says, the last line for good
if [ "$4" = describe ]; then
  state=$(head -1 "$PLACE/states")
  [ "$(wc -l <"$PLACE/states")" -gt 1 ] && sed -i 1d "$PLACE/states"
  [ "$state" = GONE ] && echo "ERROR: (gcloud.compute.tpus.tpu-vm.describe) NOT_FOUND: no such node" >&2 && exit 1
  [ "$state" = BROKEN ] && echo "ERROR: (gcloud.compute.tpus.tpu-vm.describe) There was a problem" >&2 && exit 1
  printf '%s\\t2\\n' "$state"
  exit
fi
for flag in "$@"; do case $flag in --command=*) command=${flag#--command=} ;; esac; done
for machine in 0 1; do
  mkdir -p "$PLACE/tmp$machine"
  MACHINE=$machine TMPDIR=$PLACE/tmp$machine bash -c "$command" &
  pids+=($!)
done
for pid in "${pids[@]}"; do
  wait "$pid" || code=${code:-$?}
done
exit "${code:-0}"
"""
VITZOO = """#!/usr/bin/env bash
# ends as `codes` says: a line for each start, a word for each machine
echo "$MACHINE: $*" >>"$PLACE/called"
start=$(grep -c "^$MACHINE:" "$PLACE/called")
ends=($(sed -n "${start}p" "$PLACE/codes"))
end=${ends[$MACHINE]}
case $end in
  lost) kill -9 "$PPID" ;;
  asked) while [ ! -e "$PLACE/asked" ]; do sleep 0.05; done; exit 130 ;;
  *) exit "$end" ;;
esac
"""
PKILL = """#!/usr/bin/env bash
echo "$*" >>"$PLACE/asked"
"""
NONE = "#!/usr/bin/env bash\nexit 1\n"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A folder whose `bin` stands before PATH."""
    (tmp_path / "bin").mkdir()
    for name, text in {"gcloud": GCLOUD, "vitzoo": VITZOO, "pkill": PKILL, "pgrep": NONE}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "states").write_text("READY\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.setenv("PAUSE", "0")
    for name in ("VENV", "RESTARTS", "MINUTES", "RECREATE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def on_tpus(cluster, codes, **environment):
    """Runs tpu_vm.sh; `codes` are how the machines end, for each start."""
    (cluster / "codes").write_text("\n".join(codes) + "\n")
    command = [LAUNCH / "tpu_vm.sh", "slice", "zone", "vitzoo", "train", "--workdir", "a run"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | environment)


def starts(cluster):
    return (cluster / "called").read_text().splitlines().count("0: train --workdir a run --distributed")


@pytest.mark.parametrize(
    ("codes", "code", "count", "said"),
    [
        (["0 0"], 0, 1, ""),
        (["2 2"], 2, 1, ""),
        (["130 130"], 130, 1, ""),
        (["1 1"], 1, 1, ""),  # a full disk, say: it would come again
        (["127 127"], 1, 1, ""),  # no vitzoo there
        (["75 75", "0 0"], 0, 2, "preempted, and saved; starts again from the last checkpoint (1 of 10)"),
        (["1 lost", "0 0"], 0, 2, "1 of 2 machines told no exit code, so they are lost; starts again"),
        (["1 137", "0 0"], 0, 2, "a process died (exit codes"),
        (["137 134", "75 75", "0 0"], 0, 3, "(2 of 10)"),
    ],
)
def test_a_slice_starts_again_what_would_go_on_and_nothing_else(cluster, codes, code, count, said):
    done = on_tpus(cluster, codes)
    assert (done.returncode, starts(cluster)) == (code, count), done.stderr
    assert said in done.stderr
    # what an earlier start left running is asked to save before the next one
    asked = (cluster / "asked").read_text().splitlines() if count > 1 else []
    assert asked == ["-TERM -x vitzoo"] * 2 * (count - 1)


def test_a_slice_is_started_again_so_often_at_most(cluster):
    done = on_tpus(cluster, ["75 75"] * 9, RESTARTS="2")
    assert (done.returncode, starts(cluster)) == (75, 3)
    assert done.stderr.endswith("preempted, and saved; no start is left, so it ends\n")
    (cluster / "called").unlink()
    done = on_tpus(cluster, ["1 lost"] * 9, RESTARTS="1")
    assert (done.returncode, starts(cluster)) == (1, 2)


def test_a_slice_is_waited_for_and_not_for_ever(cluster):
    (cluster / "states").write_text("READY\nRESTARTING\nREADY\n")
    done = on_tpus(cluster, ["1 lost", "0 0"])
    assert done.returncode == 0
    assert "slice is RESTARTING; waits for READY" in done.stderr
    (cluster / "states").write_text("REPAIRING\n")
    done = on_tpus(cluster, ["0 0"], MINUTES="0")
    assert done.returncode == 2
    assert "slice is REPAIRING after 0 minutes, not READY" in done.stderr


@pytest.mark.parametrize("state", ["PREEMPTED", "TERMINATED", "STOPPED", "GONE"])
def test_a_slice_that_was_taken_away_is_made_again_or_said(cluster, state):
    (cluster / "states").write_text(f"READY\n{state}\nREADY\n")
    done = on_tpus(cluster, ["75 75", "0 0"])
    word = "not there" if state == "GONE" else state
    assert (done.returncode, starts(cluster)) == (75, 1)
    assert f"slice is {word}; make it again, then the same command goes on" in done.stderr
    (cluster / "states").write_text(f"READY\n{state}\nCREATING\nREADY\n")
    (cluster / "called").unlink()
    done = on_tpus(cluster, ["75 75", "0 0"], RECREATE='touch "$PLACE/made"')
    assert (done.returncode, starts(cluster)) == (0, 2)
    assert (cluster / "made").exists()
    (cluster / "states").write_text("GONE\n")
    assert on_tpus(cluster, ["0 0"]).returncode == 2  # no such slice from the start
    assert on_tpus(cluster, ["0 0"], RECREATE="false").returncode == 1


def test_a_slice_that_cannot_be_looked_at_is_not_made_again(cluster):
    (cluster / "states").write_text("BROKEN\n")
    done = on_tpus(cluster, ["0 0"], RECREATE='touch "$PLACE/made"')
    assert done.returncode == 2
    assert "slice is not to be seen (ERROR: (gcloud.compute.tpus.tpu-vm.describe) There was a problem)" in done.stderr
    (cluster / "states").write_text("READY\nBROKEN\nREADY\n")
    done = on_tpus(cluster, ["75 75", "0 0"], RECREATE='touch "$PLACE/made"')
    assert (done.returncode, starts(cluster)) == (0, 2)
    assert not (cluster / "made").exists()


@pytest.mark.parametrize(("sent", "name", "code"), [(signal.SIGINT, "INT", 130), (signal.SIGTERM, "TERM", 130)])
def test_a_signal_to_the_launcher_asks_the_machines_to_save(cluster, sent, name, code):
    (cluster / "codes").write_text("asked asked\n")
    process = subprocess.Popen([LAUNCH / "tpu_vm.sh", "slice", "zone", "vitzoo", "train", "--workdir", "a run"])
    until = time.monotonic() + 30
    while not (cluster / "called").exists() and time.monotonic() < until:
        time.sleep(0.05)
    try:
        process.send_signal(sent)
        assert process.wait(30) == code
    finally:
        process.kill()
    assert (cluster / "asked").read_text().splitlines() == [f"-{name} -x vitzoo"] * 2


def test_an_environment_is_entered_on_every_machine(cluster):
    (cluster / "bin" / "activate").write_text('export MACHINE="$MACHINE"; echo entered >>"$PLACE/entered"\n')
    assert on_tpus(cluster, ["0 0"], VENV=str(cluster)).returncode == 0
    assert (cluster / "entered").read_text().split() == ["entered"] * 2
    assert on_tpus(cluster, ["0 0"], VENV=str(cluster / "none")).returncode == 1  # and isn't tried ten times


SLURM = {
    "srun": '#!/usr/bin/env bash\necho "$*" >>"$PLACE/called"\nexit "$(cat "$PLACE/codes")"\n',
    "squeue": '#!/usr/bin/env bash\ncat "$PLACE/states"\n',
    "scontrol": '#!/usr/bin/env bash\necho "$*" >>"$PLACE/asked"\nexit "${REFUSES:-0}"\n',
}
"""srun gives the highest of its tasks' codes; squeue says the job's state and its reason."""


@pytest.mark.parametrize(
    ("code", "state", "again", "said"),
    [
        *((code, "RUNNING None", False, "") for code in (0, 1, 2, 127, 130)),
        (75, "RUNNING None", True, "preempted, and saved; goes into the queue again (3 of 10)"),
        (75, "COMPLETING TimeLimit", True, "preempted, and saved; goes into the queue again"),
        (137, "RUNNING None", True, "a process died (exit code 137); goes into the queue again"),
        (75, "CANCELLED None", False, "has cancelled the job or put it back, so it is left alone"),
        (75, "PENDING BeginTime", False, "has cancelled the job or put it back, so it is left alone"),
    ],
)
def test_slurm_starts_again_what_would_go_on_and_nothing_else(cluster, code, state, again, said):
    for name, text in SLURM.items():
        (cluster / "bin" / name).write_text(text)
        (cluster / "bin" / name).chmod(0o755)
    (cluster / "codes").write_text(str(code))
    (cluster / "states").write_text(f"{state}\n")

    def run(**environment):
        (cluster / "asked").unlink(missing_ok=True)
        job = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"}
        command = [LAUNCH / "slurm.sh", "--workdir", "a run"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | job | environment)

    done = run()
    assert (cluster / "called").read_text().rstrip().endswith("vitzoo train --workdir a run")
    assert (done.returncode, (cluster / "asked").exists()) == (0 if again else code, again)
    assert said in done.stderr
    if again:
        assert (cluster / "asked").read_text() == "requeue 7\n"
        last = run(RESTARTS="2")
        assert (last.returncode, (cluster / "asked").exists()) == (code, False)
        assert "no start is left after 2, so it ends" in last.stderr
        assert run(REFUSES="1").returncode == code  # --no-requeue


@pytest.mark.parametrize(("ends", "code"), [(0, 0), (1, 1), (75, 75), (130, 130), (137, 75)])
def test_by_hand_a_signal_ends_it_with_the_code_of_the_training(tmp_path, ends, code):
    # 137: died as it was asked to end, and isn't started again
    command = f"trap 'exit {ends}' TERM; touch {tmp_path}/$RANDOM-$$; while true; do sleep 0.05; done"
    process = subprocess.Popen([LAUNCH / "by_hand.sh", "2", "bash", "-c", command])
    until = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == code
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["kubernetes.yaml", "kubernetes_tpu.yaml"])
def test_a_jobset_says_the_same_number_of_processes_everywhere_and_a_command_that_is_accepted(name, tmp_path, capsys):
    jobset = yaml.safe_load((LAUNCH / name).read_text())
    workers = jobset["spec"]["replicatedJobs"][0]
    job = workers["template"]["spec"]
    pod = job["template"]["spec"]
    container = pod["containers"][0]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert job["completions"] == job["parallelism"] > 1
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    # what is refused isn't tried again
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"]["containerName"] == container["name"]
    flags = dict(one.removeprefix("--").split("=", 1) for one in container["args"])
    assert flags["workdir"].startswith(container["volumeMounts"][0]["mountPath"])
    if "num-processes" in flags:
        assert int(flags["num-processes"]) == job["completions"]
        first = f"{jobset['metadata']['name']}-{workers['name']}-0-0.{jobset['metadata']['name']}"
        assert flags["coordinator"].partition(":")[0] == first
        assert {one["name"] for one in container["env"]} >= {flags["process-id"].strip("$()")}
    # alone, and to the check of the data, which lie elsewhere
    together = ("--coordinator", "--num-processes", "--process-id")
    alone = [one for one in container["args"] if one.partition("=")[0] not in together]
    assert main([*container["command"][1:], *alone, f"--workdir={tmp_path}", "--dry-run"]) == 2
    assert "data.name = imagenet2012: " in capsys.readouterr().err
