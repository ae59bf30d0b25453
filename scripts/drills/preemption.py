"""Sends SIGTERM to one process of two, to both, or to a single one, and resumes.

    python scripts/drills/preemption.py [--count 10] [--kind images|text] [--seed 0] [--workdir DIR]

Must hold: all processes exit 75 with a checkpoint of one agreed step, at or after the last logged one; the resumed run
begins there and ends with the losses of the undisturbed one, no line of its metrics lost.
"""

import random
import signal
import sys
from pathlib import Path

import common

WHO = {"process 0 of 2": (2, [0]), "process 1 of 2": (2, [1]), "both of 2": (2, [0, 1]), "a single one": (1, [0])}

TRIES, LATEST = 5, 14  # of a round; the last step at which it is stopped


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 10, given, kind="images")
    moments, score = random.Random(options.seed), common.Score("preemptions", options.count)
    with common.folder_of(options) as folder:
        straight = folder / "straight"
        common.run(straight, kind=options.kind)
        for number in range(options.count):
            who = list(WHO)[number % len(WHO)]
            count, told = WHO[who]
            workdir, said, wrong = stopped(folder, number, options.kind, count, told, moments)
            common.run(workdir, count, kind=options.kind)
            wrong += common.differences(straight, workdir)
            wrong += ["lines were lost"] * (workdir / "metrics.lost.jsonl").exists()
            score.add(f"SIGTERM to {who}: {said}", wrong)
    return score.end()


def stopped(
    folder: Path, number: int, kind: str, count: int, told: list[int], moments: random.Random
) -> tuple[Path, str, list[str]]:
    """A run that was stopped: its folder, and what `stop` says of it. One that was done before the processes had agreed
    on a step is tried again, earlier.
    """
    for attempt in range(TRIES):
        workdir = folder / f"stopped-{number}-{attempt}"
        said, wrong = stop(workdir, kind, count, told, moments, LATEST // (attempt + 1))
        if common.step_of(workdir) < common.STEPS:
            break
    return workdir, said, wrong


def stop(
    workdir: Path, kind: str, count: int, told: list[int], moments: random.Random, latest: int
) -> tuple[str, list[str]]:
    """Start, stop somewhere; what happened, and what did not hold."""
    started, step = common.start(workdir, count, kind=kind), moments.randint(1, latest)
    common.wait_for(lambda: common.step_of(workdir) >= step, started)
    for number in told:
        started[number].send_signal(signal.SIGTERM)
    codes, reached, steps = common.ends(started), common.step_of(workdir), common.saved(workdir)
    wrong = [f"exit codes {codes}"] * (codes != [75] * count)
    wrong += [f"checkpoints {steps}, last line {reached}"] * (not steps or steps[-1] != reached)
    return f"exit codes {codes}, asked at step {step}, saved at {steps[-1:]}", wrong


if __name__ == "__main__":
    sys.exit(main())
