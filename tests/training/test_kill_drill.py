"""The kill drill, in short: `scripts/kill_drill.py --kills 20` is the whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_drill.py"


@pytest.mark.slow
def test_two_kills_at_random_moments_leave_no_trace(tmp_path):
    command = [sys.executable, str(SCRIPT), "--kills", "2", "--workdir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"XLA_FLAGS": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kills" in done.stdout
    assert "0 differences" in done.stdout
