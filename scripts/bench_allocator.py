"""Seconds a step of a training on the CPU: with freed memory kept, as `vitzoo` does, and by the C library's default.

    python scripts/bench_allocator.py [--steps 32] [--rounds 2] [-- --config gpt/quickstart]

What stands behind `--` goes to `vitzoo train`; by default `t5/pretrain` with longer rows. Both ways are run in turns,
each time in a process of its own; printed is the median over all steps but the first few, and how many times faster it
is.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

EVERY = 4  # steps that are measured together
TRAINING = ["--config", "t5/pretrain", "--config.inputs.tokens.length=96"]
WAYS = {  # by what the environment says: any MALLOC_ is the user's own wish; this one asks for what is so anyway
    "kept": {},
    "default": {"MALLOC_PERTURB_": "0"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("training", nargs="*", metavar="-- FLAG", help="of `vitzoo train`")
    options = parser.parse_args()
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way, environment in WAYS.items():
            times = seconds_a_step(options.training or TRAINING, options.steps, environment)
            found[way] += times
            print(f"{way:8} {statistics.median(times):.3f} s a step", flush=True)
    medians = {way: statistics.median(times) for way, times in found.items()}
    print(f"{medians['default'] / medians['kept']:.2f} times as fast with freed memory kept")


def seconds_a_step(training: list[str], steps: int, environment: dict[str, str]) -> list[float]:
    """Of each few steps but the first of a short training."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "vitzoo", "train", *training, "--workdir", f"{folder}/run"]
        command += [f"--config.total_steps={steps}", f"--config.log.every_steps={EVERY}"]
        command += ["--config.log.tensorboard=false"]
        own = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        own |= {"JAX_PLATFORMS": "cpu"} | environment
        subprocess.run(command, env=own, check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
    times = [line["seconds"] for line in lines if line["split"] == "train"]
    return [(later - earlier) / EVERY for earlier, later in itertools.pairwise(times)]


if __name__ == "__main__":
    main()
