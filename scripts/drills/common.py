"""What the drills share: small trainings, starting them as one process or several, and comparing how they end.

A drill does something bad to a training a number of times and prints a line each time; it exits 1 if anything that must
hold did not. `python scripts/drills/NAME.py --count N [--workdir DIR]`
"""

import argparse
import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

TRAIN = [sys.executable, "-m", "vitzoo", "train"]
CLOCK = ("seconds", "goodput")
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

STEPS = 24  # of an undisturbed training


def get_config(kind: str = "images") -> Any:
    """A small training with dropout and augmentation: `images`, a ViT; `text`, a T5."""
    import vitzoo

    config = vitzoo.config.default()
    config.total_steps = STEPS
    if kind == "images":
        config.model = dict(name="vit", patch_size=4, width=16, depth=1, mlp_dim=32, num_heads=2, dropout=0.1)
        config.data = dict(name="digits", split="train[:200]", batch_size=16)
        config.augment = dict(crop="shift", shift=1, mixup=0.2)
        config.evaluate = dict(test=dict(name="classification", split="test[:37]", every_steps=12))
    else:
        config.model = dict(
            name="t5", width=16, encoder_depth=1, decoder_depth=1, num_heads=2, head_dim=8, mlp_dim=32, dropout=0.1
        )
        config.objective = dict(name="seq2seq", label_smoothing=0.1)
        config.data = dict(name="sums", split="train[:200]", batch_size=8)
        config.inputs.tokens = dict(source_length=32, length=16)
        config.evaluate = dict(test=dict(name="perplexity", split="validation[:13]", every_steps=12))
    config.optimizer = dict(name="adamw", learning_rate=1e-3, grad_clip=1.0)
    config.log = dict(every_steps=1)
    config.checkpoint = dict(every_steps=6)
    return config


def config_of(kind: str = "images") -> str:
    """The config as `--config` takes it."""
    return f"{__file__}:{kind}"


def environment(devices: int = 1, quick: bool = True) -> dict[str, str]:
    """Of a training on the CPU that sees so many simulated devices."""
    flags = f"--xla_force_host_platform_device_count={devices} {QUICK if quick else ''}"
    # JAX sets the level of its runtime's messages for this process alone, and for those it starts
    own = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return own | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(
    workdir: Path, count: int = 1, devices: int = 1, kind: str = "images", flags: Sequence[str] = ()
) -> list[subprocess.Popen]:
    """Start a training as `count` processes; process I writes `WORKDIR.I.log`."""
    command = [*TRAIN, "--config", config_of(kind), "--workdir", str(workdir), *flags]
    port, started = free_port(), []
    for number in range(count):
        own = ["--coordinator", f"127.0.0.1:{port}", "--num-processes", str(count), "--process-id", str(number)]
        with log_of(workdir, number).open("w") as log:
            started.append(
                subprocess.Popen([*command, *own * (count > 1)], stdout=log, stderr=log, env=environment(devices))
            )
    return started


def log_of(workdir: Path, number: int = 0) -> Path:
    """What a process printed."""
    return workdir.with_name(f"{workdir.name}.{number}.log")


def ends(started: Sequence[subprocess.Popen], seconds: float = 180.0) -> list[int | None]:
    """The exit codes; None for a process that has not ended after some seconds, which is then killed."""
    codes: list[int | None] = []
    end = time.monotonic() + seconds
    for process in started:
        try:
            codes.append(process.wait(max(end - time.monotonic(), 0.1)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            codes.append(None)
    return codes


def run(workdir: Path, *arguments: Any, **settings: Any) -> None:
    """A training to its end; see `start`."""
    codes = ends(start(workdir, *arguments, **settings))
    if any(code != 0 for code in codes):  # None: it took too long
        raise SystemExit(f"a run failed ({codes}):\n{log_of(workdir).read_text()}")


def wait_for(until: Callable[[], bool], started: Sequence[subprocess.Popen], seconds: float = 120.0) -> bool:
    """Whether it came true before a process ended or the time was over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and all(process.poll() is None for process in started):
        if until():
            return True
        time.sleep(0.01)
    return until()


def lines_of(workdir: Path) -> list[dict]:
    """The lines of `metrics.jsonl`, without what the clock says."""
    file, lines = workdir / "metrics.jsonl", []
    for text in file.read_text().splitlines() if file.is_file() else ():
        with contextlib.suppress(ValueError):  # the last one is being written
            lines.append(json.loads(text))
    return [{key: value for key, value in line.items() if key not in ("seconds", "goodput")} for line in lines]


def step_of(workdir: Path) -> int:
    """The last step in the metrics; 0 without one."""
    return max((line["step"] for line in lines_of(workdir)), default=0)


def saved(workdir: Path) -> list[int]:
    """The steps that are saved."""
    return sorted(int(path.name) for path in (workdir / "checkpoints").glob("*") if path.name.isdecimal())


def differences(one: Path, other: Path, relative: float = 1e-5) -> list[str]:
    """Where two runs' metrics differ: lines that only one has, values further apart than `relative`."""
    left, right = lines_of(one), lines_of(other)
    if [(line["step"], line["split"]) for line in left] != [(line["step"], line["split"]) for line in right]:
        return [f"{len(left)} and {len(right)} lines, or of other steps"]
    return [
        f"step {a['step']} {a['split']} {key}: {value} and {b.get(key)}"
        for a, b in zip(left, right, strict=True)
        for key, value in a.items()
        if not close(value, b.get(key), relative)
    ]


def close(one: Any, other: Any, relative: float) -> bool:
    """Whether two values are equal; of fractions, nearly."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=relative, abs_tol=1e-7)
    return one == other


def arguments(text: str | None, count: int, given: Sequence[str] | None = None, **more: Any) -> argparse.Namespace:
    """`--count`, `--seed` and `--workdir` of a drill, and further flags by name with their defaults."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0, help="of the drill's own draws; the training's stays")
    parser.add_argument("--workdir", type=Path, help="kept afterwards; a temporary folder by default")
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args(given)


@contextlib.contextmanager
def folder_of(options: argparse.Namespace) -> Iterator[Path]:
    """The drill's folder."""
    if options.workdir:
        options.workdir.mkdir(parents=True, exist_ok=True)
        yield options.workdir.resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


class Score:
    """Counts rounds and what did not hold, and prints a line for each."""

    def __init__(self, what: str, count: int):
        self.what, self.count, self.done, self.wrong = what, count, 0, 0

    def add(self, said: str, wrong: Sequence[str] = ()) -> None:
        """One round: what happened, and what did not hold."""
        self.done, self.wrong = self.done + 1, self.wrong + bool(wrong)
        verdict = f"  WRONG: {'; '.join(list(wrong)[:4])}" if wrong else ""
        print(f"{self.done:3} of {self.count}: {said}{verdict}", flush=True)

    def end(self) -> int:
        """The last line, and the exit code."""
        print(f"{self.done} {self.what}, {self.wrong} wrong", flush=True)
        return 1 if self.wrong or not self.done else 0
