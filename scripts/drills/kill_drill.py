"""Kills a training at random moments, resumes it each time, and compares its end with that of an undisturbed run.

    python scripts/drills/kill_drill.py [--kind images|text] [--count 20] [--seed 0] [--workdir DIR]

The training is small but real, and everything random is on: of a ViT dropout, stochastic depth, shifts and mixup, of a
T5 over a mixture of sources dropout and packing; two micro-batches a step, a moving average. Kills are `kill -9`: a
third at any moment from the start of the process on, a third inside a save, a third right after a line was written. A
run that ends with kills left is compared, and a new one begun.
Compared bit for bit: parameters, moving average, optimizer state and the loop's values of the last checkpoint, and
every line of metrics.jsonl but for its seconds. Exits 1 if anything differs.
"""

import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

STEPS = 120
COMMAND = [sys.executable, "-m", "vitzoo", "train", "--config"]


def get_config(kind="images"):
    import vitzoo

    config = vitzoo.config.default()
    config.total_steps = STEPS
    {"images": of_images, "text": of_text}[kind](config)
    config.optimizer = dict(name="adamw", learning_rate=1e-3, weight_decay=0.05, grad_clip=1.0)
    config.ema = 0.99
    config.accumulate = 2
    config.log = dict(every_steps=7)
    config.checkpoint = dict(every_steps=10, keep_best="test/loss")
    return config


def of_images(config):
    config.model = dict(
        name="vit",
        patch_size=4,
        width=32,
        depth=2,
        mlp_dim=64,
        num_heads=2,
        dropout=0.1,
        drop_path=0.1,
        layer_scale=0.1,
    )
    config.data = dict(name="digits", split="train[:500]", batch_size=32)
    config.augment = dict(crop="shift", shift=1, mixup=0.2)
    config.evaluate = dict(test=dict(name="classification", split="test[:100]", every_steps=15))


def of_text(config):
    config.model = dict(
        name="t5",
        width=32,
        encoder_depth=2,
        decoder_depth=2,
        num_heads=2,
        head_dim=16,
        mlp_dim=64,
        dropout=0.1,
        scale_attention=True,
    )
    config.objective = dict(name="seq2seq", label_smoothing=0.1, z_loss=1e-4)
    config.data = dict(name="mixture", split="train[:500]", batch_size=16)
    config.mixture = dict(
        sources=dict(two=dict(name="sums", prefix="two: "), one=dict(name="sums/1", split="train", prefix="one: ")),
        rates=(0.7, 0.3),
    )
    config.inputs.tokens = dict(source_length=64, length=24, packing=True)
    config.evaluate = dict(
        test=dict(name="perplexity", split="validation[:50]", data=dict(name="sums"), every_steps=15)
    )


def main(arguments: list[str] | None = None) -> int:
    import common  # not above: as a config, this file is read from another folder

    options = common.arguments(__doc__, 20, arguments, kind="images")
    with common.folder_of(options) as folder:
        return drill(folder, options.kind, options.count, random.Random(options.seed))


def drill(folder: Path, kind: str, kills: int, moments: random.Random) -> int:
    """Run undisturbed once, then with kills until there were enough; returns the exit code."""
    straight = folder / "straight"
    seconds = finish(straight, kind)
    print(f"undisturbed run: {STEPS} steps in {seconds:.1f} s", flush=True)
    done, round_, differences = 0, 0, 0
    while done < kills:
        round_ += 1
        workdir = folder / f"killed-{round_}"
        while done < kills and (said := kill_once(workdir, kind, seconds, moments)):
            done += 1
            print(f"kill {done:3} of {kills}: {said}", flush=True)
        finish(workdir, kind)
        found = compare(straight, workdir)
        differences += len(found)
        print(f"run {round_} ended {'bitwise equal' if not found else 'DIFFERENT: ' + '; '.join(found)}", flush=True)
    print(f"{done} kills, {round_} run{'s' * (round_ > 1)} compared, {differences} differences")
    return 1 if differences else 0


def start(workdir: Path, kind: str) -> subprocess.Popen:
    log = workdir.with_name(f"{workdir.name}.log").open("a")
    return subprocess.Popen([*COMMAND, f"{__file__}:{kind}", "--workdir", str(workdir)], stdout=log, stderr=log)


def finish(workdir: Path, kind: str) -> float:
    """Run to the end; returns the seconds it took."""
    began, process = time.monotonic(), start(workdir, kind)
    if process.wait() != 0:
        raise SystemExit(f"a run failed:\n{workdir.with_name(f'{workdir.name}.log').read_text()}")
    return time.monotonic() - began


def kill_once(workdir: Path, kind: str, seconds: float, moments: random.Random) -> str:
    """Start or resume the run and kill it at some moment; an empty text if it ended before."""
    how = moments.choice(["at any moment", "inside a save", "after a line"])
    began, lines, leftover = time.monotonic(), count_lines(workdir), unfinished(workdir)
    process = start(workdir, kind)
    if how == "at any moment":
        wait(process, lambda: False, moments.uniform(0, seconds / 2))  # resumed runs compile nothing and are faster
    elif how == "inside a save":
        for _ in range(moments.randint(1, 3)):  # the first, second or third save of this process
            wait(process, lambda: unfinished(workdir) <= leftover, seconds)
            wait(process, lambda: unfinished(workdir) > leftover, seconds)
        time.sleep(moments.uniform(0, 0.05))
    else:
        lines += moments.randint(1, 5)
        wait(process, lambda: count_lines(workdir) >= lines, seconds)
    if process.poll() is not None:
        return ""
    process.kill()
    process.wait()
    inside = ", a save unfinished" if unfinished(workdir) > leftover else ""
    steps = sorted(int(path.name) for path in (workdir / "checkpoints").glob("*") if path.name.isdecimal())
    return f"{how}, {time.monotonic() - began:.2f} s after the start, checkpoints {steps}{inside}"


def wait(process: subprocess.Popen, until, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None and not until():
        time.sleep(0.001)


def unfinished(workdir: Path) -> float:
    """When the newest unfinished save was begun; 0 without one."""
    times = [0.0]
    for path in (workdir / "checkpoints").glob("*.orbax-checkpoint-tmp*"):
        with contextlib.suppress(OSError):  # it was finished meanwhile
            times.append(path.stat().st_mtime)
    return max(times)


def count_lines(workdir: Path) -> int:
    file = workdir / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.is_file() else 0


def compare(straight: Path, killed: Path) -> list[str]:
    """What differs between the ends of two runs."""
    import jax

    from vitzoo.checkpoints import manifest, metadata
    from vitzoo.checkpoints.arrays import read_arrays

    found = []
    left, right = (workdir / "checkpoints" / str(STEPS) for workdir in (straight, killed))
    manifest.verify(right)
    for item in ("params", "ema", "optimizer"):
        pairs = zip(
            *(jax.tree_util.tree_leaves_with_path(read_arrays(side / item)) for side in (left, right)),
            strict=True,
        )
        found += [f"{item}{jax.tree_util.keystr(path)}" for (path, a), (_, b) in pairs if not bitwise(a, b)]
    if metadata.read_loop(left) != metadata.read_loop(right):
        found.append("loop")
    if lines_of(straight) != lines_of(killed):
        found.append("metrics.jsonl")
    return found


def bitwise(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def lines_of(workdir: Path) -> list[dict]:
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "goodput")} for line in lines]


if __name__ == "__main__":
    sys.exit(main())
