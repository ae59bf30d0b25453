"""Runs the ablations of configs/vit/ablation.py, each with several seeds, and prints the table.

    python scripts/ablation.py --workdir runs/ablation [--seeds 3] [--config.total_epochs=6 ...]

Every run has a folder of its own and is resumed or left alone when it stands there already, so the command can be
stopped and given again.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROWS = {
    "positions": ("none", "1d", "2d", "relative", "sincos2d", "rotary"),
    "pooling": ("cls", "gap", "map"),
}


def final_accuracy(workdir: pathlib.Path) -> float:
    """The last test accuracy in a finished run's metrics, as a fraction."""
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [line["accuracy"] for line in lines if line["split"] == "test"][-1]


def train(argument: str, seed: int, workdir: pathlib.Path, overrides: list[str]) -> float:
    """One run through the command line, as a user would start it; its test accuracy."""
    command = [sys.executable, "-m", "vitzoo", "train", "--config", f"vit/ablation:{argument}"]
    command += ["--workdir", str(workdir), f"--config.seed={seed}", *overrides]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return final_accuracy(workdir)


def row(argument: str, accuracies: list[float]) -> str:
    """A line of the table: mean, and the spread as one sample standard deviation."""
    mean = 100 * statistics.mean(accuracies)
    spread = f" ± {100 * statistics.stdev(accuracies):.2f}" if len(accuracies) > 1 else ""
    each = ", ".join(f"{100 * accuracy:.2f}" for accuracy in accuracies)
    return f"| {argument} | {mean:.2f}{spread} | {each} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    arguments, overrides = parser.parse_known_args()
    for table, names in ROWS.items():
        print(f"\n| {table} | test accuracy, % | seeds |\n|---|---|---|", flush=True)
        for name in names:
            runs = [
                train(name, seed, arguments.workdir / f"{name}-{seed}", overrides) for seed in range(arguments.seeds)
            ]
            print(row(name, runs), flush=True)


if __name__ == "__main__":
    main()
