"""Where a run's numbers go: `metrics.jsonl`, TensorBoard events, and Weights & Biases if asked.

An event file is written at once and in this thread: a full disk is an error here and now.
"""

import importlib.util
import json
import math
import os
import socket
import struct
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.config.experiment import Log
from vitzoo.errors import UserError, install_extra
from vitzoo.parallel import processes

FILE = "metrics.jsonl"
LOST = "metrics.lost.jsonl"
COUNTS = ("examples", "epoch", "seconds", "n")
"""Entries of a line that are numbers, whatever else it has."""
NESTED = 2  # a line holds numbers, and shares by name


class Metrics:
    """Writes one line an event, before the step's checkpoint is saved; numbers that are not finite become null. Of
    several processes only the first writes.

    Args:
        workdir: the run's folder.
        step: the step that the run starts or resumes from; later lines of an interrupted run move to
            `metrics.lost.jsonl`, so that the file ends as if nothing had happened.
        log: the config's section.
    """

    def __init__(self, workdir: Path, step: int, log: Log):
        self._writes = processes.is_first()
        if not self._writes:
            return
        self._before = set_back(workdir, step)  # seconds of the processes that were interrupted
        self._began = time.monotonic()
        self._path = workdir / FILE
        self._file = self._path.open("a", buffering=1)
        self._events = Events(workdir, step) if log.tensorboard else None
        self._wandb = _start_wandb(workdir, log) if log.wandb else None

    def train(self, progress: dict[str, Any], values: dict[str, Any]) -> None:
        """Add a line of the training, where `progress` is `step`, `examples`, `epoch`; `values` may hold `goodput`, the
        fractions of this process's time so far (`training.progress`).
        """
        if not self._writes:
            return
        seconds = round(self._before + time.monotonic() - self._began, 3)
        self._write({**progress, "seconds": seconds, "split": "train", **values})

    def evaluation(self, step: int, split: str, values: dict[str, Any]) -> None:
        """Add a line of an evaluator; `values` begin with `weights`, which were evaluated (`ema`, `raw`), and `n`."""
        if self._writes:
            self._write({"step": step, "split": split, **values})

    def _write(self, line: dict[str, Any]) -> None:
        line = {key: _plain(value) for key, value in line.items()}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        parts = {f"goodput/{part}": share for part, share in line.get("goodput", {}).items()}
        numbers = {
            f"{line['split']}/{key}": value
            for key, value in (line | parts).items()
            if key not in ("step", "split") and isinstance(value, int | float)
        }
        if self._events is not None:
            self._events.write(line["step"], numbers)
        if self._wandb is not None:
            self._wandb.log(numbers, step=line["step"])

    def missing(self) -> list[Path]:
        """The files to which it writes that are no longer where they were: moved, deleted, or others in their place."""
        if not self._writes:
            return []
        written = [(self._path, self._file.fileno())]
        if self._events is not None:
            written.append((self._events.path, self._events.fileno()))
        return [path for path, number in written if not _is_there(path, number)]

    def close(self) -> None:
        if not self._writes:
            return
        self._file.close()
        if self._events is not None:
            self._events.close()
        if self._wandb is not None:
            self._wandb.finish()


def _is_there(path: Path, number: int) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(number))
    except OSError:
        return False


def read(workdir: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`, without those that are damaged or were cut off by a kill.

    Raises:
        UserError: the file can't be read.
    """
    return [content for content in map(_parsed, _lines(workdir / FILE)) if content is not None]


def warn_of_damage(workdir: Path, what: str, *, cut: bool = False) -> None:
    """A line that tells which lines of `metrics.jsonl` are damaged, if any are.

    Args:
        workdir: the run's folder.
        what: what becomes of them, `are left out`.
        cut: tell of the last one too if it was cut off, as by a kill, or is still being written.
    """
    file = workdir / FILE
    lines = _lines(file)
    damaged = [number for number, line in enumerate(lines, 1) if _parsed(line) is None]
    if not cut and damaged and damaged[-1] == len(lines) and not file.read_bytes().endswith((b"\n", b"\r")):
        del damaged[-1]
    if damaged:
        shown = ", ".join(map(str, damaged[:5])) + (f" and {len(damaged) - 5:,} more" if len(damaged) > 5 else "")
        several = "s" if len(damaged) > 1 else ""
        print(
            f"warning: {len(damaged):,} damaged line{several} of {file} {what} (line{several} {shown})",
            file=sys.stderr,
            flush=True,
        )


def _lines(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().splitlines() if file.is_file() else []
    except OSError as error:
        raise UserError("workdir", str(file), f"can't be read: {error.strerror}") from error


def set_back(workdir: Path, step: int) -> float:
    """Move the lines after `step`, and damaged ones, to `metrics.lost.jsonl`.

    Returns:
        The seconds that the last one kept states.
    """
    file = workdir / FILE
    if not file.is_file():
        return 0.0
    warn_of_damage(workdir, f"moved to {LOST}")
    kept, lost, seconds = [], [], 0.0
    for line in _lines(file):
        content = _parsed(line)
        if content is None or content["step"] > step:
            lost.append(line)
        else:
            kept.append(line)
            seconds = content.get("seconds", seconds)
    if lost:
        with (workdir / LOST).open("ab") as stream:
            stream.writelines(line + b"\n" for line in lost)
        partial = workdir / f".{FILE}.partial"
        partial.write_bytes(b"".join(line + b"\n" for line in kept))
        os.replace(partial, file)
    return seconds


def _parsed(line: bytes) -> dict | None:
    """What a line of ours says; None where it is none: other types, numbers that no run has, a deep nesting."""
    try:
        content = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not _is_plain(content, NESTED):
        return None
    typed = type(content.get("step")) is int and content["step"] >= 0 and type(content.get("split")) is str
    counted = all(type(content.get(key, 0)) in (int, float) for key in COUNTS)
    shared = isinstance(content.get("goodput", {}), dict)
    return content if typed and counted and shared else None


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value is text, a number that fits 64 bits, true, false, null, or few of these in lists and objects."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_is_plain(one, depth - 1) for one in inner)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < 2**63


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_log(log: Log) -> None:
    """Refuses, before any work, a log for which a package is missing."""
    if log.wandb and importlib.util.find_spec("wandb") is None:
        raise UserError("log.wandb", True, f"Weights & Biases is missing; {install_extra('wandb')}")


def _start_wandb(workdir: Path, log: Log) -> Any:
    import wandb

    folder = workdir.resolve()
    identity = f"{folder.name}-{zlib.crc32(str(folder).encode()):08x}"  # the same when the run is resumed
    name = log.wandb_name or folder.name
    return wandb.init(dir=str(workdir), project=log.wandb_project, name=name, id=identity, resume="allow")


class Events:
    """Scalars for TensorBoard.

    Args:
        workdir: where the file goes.
        step: the step that the run starts or resumes from; TensorBoard then drops what earlier files say of later ones.
    """

    def __init__(self, workdir: Path, step: int):
        from tensorboardX.proto import event_pb2, summary_pb2

        self._event, self._summary = event_pb2, summary_pb2
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self.path = workdir / name
        self._file = self.path.open("ab", buffering=0)
        self._write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2"))
        if step:
            restart = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._write(event_pb2.Event(wall_time=time.time(), step=step + 1, session_log=restart))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add numbers by name."""
        scalars = [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        summary = self._summary.Summary(value=scalars)
        self._write(self._event.Event(wall_time=time.time(), step=step, summary=summary))

    def fileno(self) -> int:
        """The open file's descriptor."""
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def _write(self, event) -> None:
        from tensorboardX.record_writer import masked_crc32c

        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        checksums = [struct.pack("<I", masked_crc32c(part)) for part in (length, data)]
        self._file.write(length + checksums[0] + data + checksums[1])  # a TFRecord
