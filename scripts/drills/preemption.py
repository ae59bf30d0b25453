"""Sends SIGTERM to one process of two, to both, or to a single one, at any moment and as a save begins, and resumes.

    python scripts/drills/preemption.py [--count 10] [--kind images|text] [--seed 0] [--workdir DIR]

Must hold: all processes exit 75 with a checkpoint of one agreed step, at or after the last logged one; the resumed run
begins there and ends with the losses of the undisturbed one, no line of its metrics lost. The training is longer than
any agreement takes, so that one which ends by itself has lost the signal.
"""

import random
import signal
import sys
import time
from pathlib import Path

import common

WHO = {"process 0 of 2": (2, [0]), "process 1 of 2": (2, [1]), "both of 2": (2, [0, 1]), "a single one": (1, [0])}

STEPS, EVERY = 240, 40  # of the training; between two saves
FLAGS = [f"--config.total_steps={STEPS}", f"--config.checkpoint.every_steps={EVERY}"]


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 10, given, kind="images")
    moments, score = random.Random(options.seed), common.Score("preemptions", options.count)
    with common.folder_of(options) as folder:
        straight = folder / "straight"
        common.run(straight, kind=options.kind, flags=FLAGS)
        for number in range(options.count):
            who = list(WHO)[number % len(WHO)]
            count, told = WHO[who]
            workdir = folder / f"stopped-{number}"
            saving = number // len(WHO) % 2 == 0  # each of them as a save begins, then at any moment
            said, wrong = stop(workdir, options.kind, count, told, moments, saving)
            common.run(workdir, count, kind=options.kind, flags=FLAGS)
            wrong += common.differences(straight, workdir)
            wrong += ["lines were lost"] * (workdir / "metrics.lost.jsonl").exists()
            score.add(f"SIGTERM to {who} {'as a save begins' if saving else ''}: {said}", wrong)
    return score.end()


def stop(
    workdir: Path, kind: str, count: int, told: list[int], moments: random.Random, saving: bool
) -> tuple[str, list[str]]:
    """Start, stop somewhere; what happened, and what did not hold."""
    started = common.start(workdir, count, kind=kind, flags=FLAGS)
    step = moments.randint(1, 3) * EVERY if saving else moments.randint(1, 3 * EVERY)
    there = common.wait_for(lambda: came(workdir, step, saving), started)
    time.sleep(moments.uniform(0, 0.25) if saving else 0)
    for number in told:
        started[number].send_signal(signal.SIGTERM)
    codes, reached, steps = common.ends(started), common.step_of(workdir), common.saved(workdir)
    wrong = [f"step {step} never came"] * (not there)
    wrong += [f"exit codes {codes}"] * (codes != [75] * count)
    wrong += [f"checkpoints {steps}, last line {reached}"] * (not steps or steps[-1] != reached)
    return f"exit codes {codes}, asked at step {step}, saved at {steps[-1:]}", wrong


def came(workdir: Path, step: int, saving: bool) -> bool:
    """Whether a step is logged, or its save has begun."""
    return any((workdir / "checkpoints").glob(f"{step}*")) if saving else common.step_of(workdir) >= step


if __name__ == "__main__":
    sys.exit(main())
