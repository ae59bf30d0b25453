"""Gives a training a batch whose loss is NaN, with `non_finite` = skip and stop in turn.

    python scripts/drills/not_finite.py [--count 5] [--seed 0] [--workdir DIR]

Must hold: `skip` counts the step and goes on to the end; `stop` fails with a line that names the step; neither saves
anything that is not finite.
"""

import contextlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import common
import jax
import numpy as np

import vitzoo
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.data.pipeline import TrainStream
from vitzoo.errors import RunError


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 5, given)
    moments, score = random.Random(options.seed), common.Score("batches of NaN", options.count)
    with common.folder_of(options) as folder:
        for number in range(options.count):
            how, batch = ("skip", "stop")[number % 2], moments.randint(2, 20)
            workdir = folder / f"{how}-{number}"
            with spoilt(batch):
                said, wrong = train(workdir, how, batch)
            wrong += not_finite(workdir)
            score.add(f"{how}, batch {batch}: {said}", wrong)
    return score.end()


@contextlib.contextmanager
def spoilt(number: int) -> Iterator[None]:
    """Within the block the batch that leads to this step weighs NaN."""
    iterate = TrainStream.iterate

    def spoiling(self: TrainStream, start_step: int = 0) -> Iterator[dict]:
        for step, batch in enumerate(iterate(self, start_step), start_step + 1):
            yield batch | {"example_weight": batch["example_weight"] * np.float32(np.nan)} if step == number else batch

    TrainStream.iterate = spoiling  # type: ignore[method-assign]
    try:
        yield
    finally:
        TrainStream.iterate = iterate  # type: ignore[method-assign]


def train(workdir: Path, how: str, batch: int) -> tuple[str, list[str]]:
    """Train; what happened, and what did not hold."""
    try:
        ended = vitzoo.train(common.get_config(), workdir, {"non_finite": how})
    except RunError as failure:
        fits = how == "stop" and f"step {batch}:" in str(failure)
        return str(failure)[:60], [] if fits else [f"failed: {failure}"]
    skipped = ended["metrics"]["train"]["skipped"]
    fits = how == "skip" and ended["finished"] and skipped == 1
    return f"step {ended['step']}, {skipped} skipped", [] if fits else [f"ended with {skipped} skipped"]


def not_finite(workdir: Path) -> list[str]:
    """What of the checkpoints holds a number that is not finite."""
    found = []
    for step in common.saved(workdir):
        for item in ("params", "optimizer"):
            leaves = jax.tree.leaves(read_arrays(workdir / "checkpoints" / str(step) / item))
            found += [f"{step}/{item}"] * any(not np.isfinite(leaf).all() for leaf in leaves)
    return found


if __name__ == "__main__":
    sys.exit(main())
