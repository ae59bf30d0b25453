"""Takes a picture away in the middle of an epoch, or kills a process that reads data.

    python scripts/drills/data_loss.py [--count 6] [--workdir DIR]

Must hold: with `data.bad_files=stop` the run ends with exit code 1 and a line that names the file; with `skip` it goes
on to the end, names the file once and counts it; a dead data worker ends it with exit code 1 and one line.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import common
import numpy as np
from PIL import Image

HOW = ("stop", "skip", "worker")
FLAGS = [
    "--config.model.channels=3",
    "--config.data.split=train[:90%]",
    "--config.evaluate.test.split=train[90%:]",
    "--config.data.in_memory=never",
    "--config.data.prefetch=1",
    "--config.checkpoint.every_steps=1000",
]


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 6, given)
    score = common.Score("losses of data", options.count)
    with common.folder_of(options) as folder:
        for number in range(options.count):
            how = HOW[number % len(HOW)]
            pictures = draw(folder / f"pictures-{number}")
            said, wrong = lose(folder / f"run-{number}", pictures, how)
            score.add(f"{how}: {said}", wrong)
    return score.end()


def draw(folder: Path) -> Path:
    """400 pictures of two classes."""
    generator = np.random.default_rng(0)
    for name in ("dark", "bright"):
        (folder / name).mkdir(parents=True)
        for number in range(200):
            values = generator.integers(0, 128, (8, 8, 3)) + 127 * (name == "bright")
            Image.fromarray(values.astype(np.uint8)).save(folder / name / f"{number:03}.png")
    return folder


def lose(workdir: Path, pictures: Path, how: str) -> tuple[str, list[str]]:
    """Train, lose something; what happened, and what did not hold."""
    flags = [f"--config.data.name=folder:{pictures}", *FLAGS]
    if how == "worker":
        started = common.start(workdir, flags=[*flags, "--config.total_steps=100000", "--config.data.workers=1"])
    else:
        started = common.start(workdir, flags=[*flags, "--config.total_steps=300", f"--config.data.bad_files={how}"])
    common.wait_for(lambda: common.step_of(workdir) >= 2, started)
    lost = ""
    if how == "worker":
        os.kill(workers_of(started[0].pid)[0], signal.SIGKILL)
    else:
        lost = str(pictures / "dark" / "007.png")
        os.unlink(lost)
    code, log = common.ends(started)[0], common.log_of(workdir).read_text()
    line = log.strip().splitlines()[-1]
    if how == "skip":
        named = log.count("dark/007.png") == 1 and "1 left out" in log
        return f"exit code {code}, named and counted: {named}", ["not named once and counted"] * (
            code != 0 or not named
        )
    wrong = [f"exit code {code}"] * (code != 1) + [f"says {line}"] * (how == "stop" and "dark/007.png" not in line)
    wrong += ["a trace"] * ("Traceback" in log)
    return f"exit code {code}: {line[:110]}", wrong


def workers_of(pid: int) -> list[int]:
    """The processes that a training has started to read data, newest first: of Python's, the tracker comes first."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in reversed(found.splitlines()) if "resource_tracker" not in line]


if __name__ == "__main__":
    sys.exit(main())
