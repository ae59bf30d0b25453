"""The folder of one run (`--workdir`): what it was configured with, where it came from."""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.config import resolve
from vitzoo.config.experiment import DURATIONS
from vitzoo.config.fields import UNSET, Differences, compare
from vitzoo.config.files import NEEDED, read_kept
from vitzoo.errors import RunError, UserError
from vitzoo.overwriting import Reads, check_stays_outside
from vitzoo.parallel import processes
from vitzoo.spelling import shell_flag

CONFIG = "config.json"
PROVENANCE = "provenance.json"
RUN_FILES = (CONFIG, PROVENANCE, "metrics.jsonl", "metrics.lost.jsonl", "curves.png")
"""The files that a run writes beside its checkpoints."""
_PACKAGES = ("vitzoo", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "tensorflow-datasets", "numpy")


def existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that there is."""
    return next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file so that a reader finds the old content or the new, never half of it."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(partial, file)


def check_config(workdir: Path, values: dict[str, Any]) -> Differences:
    """Compare the config asked for with the one the run was started with; empty for a new run.

    Returns:
        The execution settings that differ, by name: (then, now).

    Raises:
        UserError: a setting of the training's meaning differs, or `config.json` can't be read.
    """
    check_stays_outside("workdir", workdir, workdir, Reads.of(values))
    before = read_config(workdir, NEEDED)
    if before is None:
        return {}
    meaning, execution = compare(_with_defaults(before), values)
    if meaning:
        field = next((name for name, (_, now) in meaning.items() if now is not None), next(iter(meaning)))
        then, now = meaning[field]
        several = [f"{name} = {old}" for name, (old, _) in meaning.items() if old not in (None, UNSET)][:4]
        was = then if len(meaning) == 1 else ", ".join(several)
        raise UserError(field, now, f"this run was started with {was}; {_remedy(workdir, meaning)}")
    return execution


def _with_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """The values, and the defaults of settings that the version which wrote them didn't have."""
    try:
        return resolve(values).values
    except UserError:  # they hold what this version doesn't know, and differ by that
        return values


def _remedy(workdir: Path, meaning: Differences) -> str:
    if set(meaning) <= {*DURATIONS, "min_steps"}:
        flags = f"{shell_flag('--config.init_from', workdir)} --config.init_from_state=true"
        return f"a new workdir with {flags} goes on from it"
    return "start a new workdir for another training"


def start_from(workdir: Path) -> str:
    """How to go on from a run that can't be resumed."""
    return f"a new workdir with {shell_flag('--config.init_from', workdir)} keeps what it learned"


def begin(workdir: Path, values: dict[str, Any], step: int, differences: Differences, device: str) -> bytes | None:
    """Write `config.json` and `provenance.json`; a config with other execution settings keeps the one before.

    Returns:
        The content of `provenance.json`, by which `check_there` knows the folder; None where another process writes.
    """
    if not processes.is_first():
        return None
    if differences:
        write_json(workdir / f"config.before-{step}.json", read_config(workdir))
    write_json(workdir / CONFIG, values)
    _record_provenance(workdir, step, device)
    return (workdir / PROVENANCE).read_bytes()


def check_there(workdir: Path, begun: bytes | None, step: int, missing: Sequence[Path] = ()) -> None:
    """Whether the folder is still the one that this run writes to: what is missing would be made anew, in part.

    Args:
        workdir: the run's folder.
        begun: what `begin` returned.
        step: the step that the run is at.
        missing: what the run wrote besides and isn't there any more.

    Raises:
        RunError: it was moved or deleted, or another run has begun in its place; or a file of it is missing.
    """
    if begun is None:
        return
    try:
        same = (workdir / PROVENANCE).is_file() and (workdir / PROVENANCE).read_bytes() == begun
    except OSError:
        same = False
    if not same:
        message = f"{workdir} was moved, deleted or replaced while this run was writing to it: stopped at step {step:,}"
        raise RunError(f"{message}; what was saved is in that folder, wherever it is now")
    for file in (*missing, *(file for file in [workdir / CONFIG] if not file.is_file())):
        raise RunError(
            f"{file} was moved, deleted or replaced while this run was writing to it: stopped at step {step:,}"
        )


def read_config(workdir: Path, needed: Collection[str] = ()) -> dict | None:
    """The values that the run was started with; None for a new run.

    Raises:
        UserError: as `config.comparison.read_kept`, to which `needed` goes.
    """
    try:
        return read_kept(workdir / CONFIG, "workdir", needed)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def told_if_gone(workdir: Path, begun: bytes | None, step: Callable[[], int]) -> Iterator[None]:
    """A failure within the block is told as `check_there` tells it where the folder is gone: that is why."""
    try:
        yield
    except (RunError, OSError):
        check_there(workdir, begun, step())
        raise


def _record_provenance(workdir: Path, step: int, device: str) -> None:
    """Write where the run comes from; a resumed run adds to `resumed` what differs by then.

    Args:
        workdir: the run's folder.
        step: the step this process starts from.
        device: platform and device count.
    """
    file = workdir / PROVENANCE
    now = {
        "started": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "step": step,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": device,
        "processes": processes.count(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "git": _git_state(),
    }
    try:
        first = strict_json.read(file)
        first["resumed"].append(now)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none of ours
        first = {**now, "resumed": []}
    write_json(file, first)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_state() -> dict | None:
    """Commit of the folder that vitzoo runs from, and whether files differ from it; None outside a repository."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None
