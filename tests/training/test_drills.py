"""Every drill, in short; the whole are `scripts/drills/NAME.py --count N`."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "scripts" / "drills"))
import common

DRILLS = Path(common.__file__).parent

SHORT = {
    "kill_drill": ["--count", "2"],
    "two_processes": ["--count", "2"],
    "preemption": ["--count", "3"],
    "meshes": ["--count", "12"],
    "damage": ["--count", "20", "--resumed", "1"],
    "disk": ["--count", "2"],
    "data_loss": ["--count", "3"],
    "two_runs": ["--count", "1"],
    "not_finite": ["--count", "2"],
}


@pytest.mark.slow
@pytest.mark.timeout(1800)  # each starts dozens of trainings
@pytest.mark.parametrize("name", SHORT)
def test_a_short_drill_finds_nothing_wrong(name, tmp_path):
    command = [sys.executable, str(DRILLS / f"{name}.py"), *SHORT[name], "--workdir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=common.environment(quick=False))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_drill_has_a_short_round():
    assert {path.stem for path in DRILLS.glob("*.py")} - {"common"} == SHORT.keys()
