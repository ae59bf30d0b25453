"""Kills one of two processes (kill -9), a worker or process 0, and resumes on 2, then 1, then 4 processes.

    python scripts/drills/two_processes.py [--count 10] [--kind images|text] [--seed 0] [--workdir DIR]

Must hold: the other process ends within 15 s (a lost worker: with exit code 1 and one line that names it; a lost
process 0: the runtime aborts the others, and launchers start again), and the resumed run has the losses of the
undisturbed one.
"""

import random
import sys
import time
from pathlib import Path

import common

PROCESSES = (2, 1, 4)  # of the resumed runs, in turn: each is stopped too, but for the last
MOST_SECONDS = 15.0


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 10, given, kind="images")
    moments, score = random.Random(options.seed), common.Score("kills of one of two processes", options.count)
    with common.folder_of(options) as folder:
        straight = folder / "straight"
        common.run(straight, kind=options.kind)
        for number in range(options.count):
            workdir = folder / f"killed-{number}"
            said, wrong = kill(workdir, options.kind, number % 2, moments)
            for count in PROCESSES[:-1]:
                stop_on(workdir, count, options.kind, moments)
            common.run(workdir, PROCESSES[-1], kind=options.kind)
            wrong += common.differences(straight, workdir)
            score.add(f"{said}; resumed on {', '.join(map(str, PROCESSES))}", wrong)
    return score.end()


def kill(workdir: Path, kind: str, first: int, moments: random.Random) -> tuple[str, list[str]]:
    """Start two processes and kill one of them; what happened, and what did not hold."""
    victim = 0 if first else 1
    started = common.start(workdir, 2, kind=kind, flags=["--config.log.every_steps=1"])
    step = moments.randint(1, 14)
    common.wait_for(lambda: common.step_of(workdir) >= step, started)
    started[victim].kill()
    began = time.monotonic()
    code = common.ends([started[1 - victim]], 40.0)[0]
    seconds = time.monotonic() - began
    lines = [line for line in common.log_of(workdir, 1 - victim).read_text().splitlines() if "is gone" in line]
    wrong = [f"the other ended with {code} after {seconds:.1f} s"] * (code is None or seconds > MOST_SECONDS)
    if victim == 1:
        wrong += [f"exit code {code}"] * (code != 1) + [f"lines {lines}"] * (len(lines) != 1)
    return f"process {victim} killed at step {step}, the other ended after {seconds:.1f} s with {code}", wrong


def stop_on(workdir: Path, count: int, kind: str, moments: random.Random) -> None:
    """Resume on so many processes and kill all of them somewhat later."""
    before = common.step_of(workdir)
    started = common.start(workdir, count, kind=kind)
    log = common.log_of(workdir)
    common.wait_for(lambda: "resumed" in log.read_text() or "random parameters" in log.read_text(), started)
    common.wait_for(lambda: common.step_of(workdir) >= before + moments.randint(1, 3), started, 20.0)
    for process in started:
        process.kill()
    common.ends(started)


if __name__ == "__main__":
    sys.exit(main())
