"""What an output must not take the place of: what the command itself reads, a run's own files, a checkpoint."""

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vitzoo.errors import Refused
from vitzoo.paths import expanded

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg")
"""Images that commands write, and that are examples where a folder of images is read."""
CHECKPOINT_FILES = ("manifest.json", "model.json")
"""What a checkpoint's folder holds."""
KINDS = ("folder", "csv", "text", "jsonl")
"""What stands before the path in `data.name`."""
RUN_FOLDERS = ("checkpoints", "assets", "eval", "profile")
RUN_FILES = re.compile(
    r"config([.]before-\d+)?[.]json|provenance[.]json|metrics([.]lost)?[.]jsonl|curves[.]png|[.]lock|events[.]out[.].*"
)
"""What a run writes in its folder."""


@dataclasses.dataclass(frozen=True)
class Reads:
    """What a command reads.

    Attributes:
        named: as the user names it: files, folders, `KIND:PATH`, `RUN@STEP`, `PATH:part`; whatever else is no path.
        weights: checkpoints; of a folder of published weights every file is read.
    """

    named: Sequence[Any] = ()
    weights: Sequence[Any] = ()


def texts_in(values: Any) -> Iterator[str]:
    """Every text in nested settings: those that name what is read are among them."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from texts_in(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from texts_in(value)


def check_replaces_nothing(flag: str, path: Any, file: Path, reads: Reads) -> None:
    """Refuses a file to be written in the place of another that is needed.

    Args:
        flag, path: the setting that names it, and how.
        file: it.
        reads: what the command reads.

    Raises:
        Refused: it is, by any link, a file that is read; it would be an example of a folder that is read; it lies in a
            checkpoint; or it is one of a run's own files.
    """
    for name in (*reads.named, *reads.weights):
        for one in _paths(name):
            if one.is_file() and _is_same(one, file):
                raise Refused(flag, path, f"is {name}, which is read; name another file")
    for name in reads.named:
        if file.suffix.lower() in IMAGE_ENDINGS:
            _check_not_below(flag, path, file, name)
    for name in reads.weights:
        for folder in _paths(name):
            if file.exists() and any(_is_same(one, file) for one in _files_of(folder)):
                raise Refused(flag, path, f"is one of the files of {name}, which is read; name another file")
    check_spoils_no_run(flag, path, file)


def check_stays_outside(flag: str, path: Any, folder: Path, reads: Reads) -> None:
    """Refuses a folder to be filled within a checkpoint, or within a folder whose images are read.

    Raises:
        Refused: it lies there.
    """
    check_spoils_no_run(flag, path, folder)
    for name in reads.named:
        if str(name).startswith("folder:"):
            _check_not_below(flag, path, folder, name)


def check_is_none_of(flag: str, path: Any, file: Path, files: Iterable[str]) -> None:
    """Refuses a file to be written that is one of those a dataset lists."""
    if file.exists():
        for one in files:
            if _is_same(Path(one), file):
                raise Refused(flag, path, f"is {one}, one of the files that are read; name another file")


def check_spoils_no_run(flag: str, path: Any, output: Path) -> None:
    """Refuses what would lie within a checkpoint, or among a run's checkpoints, or replace one of a run's own files.

    Raises:
        Refused: it would.
    """
    for start in dict.fromkeys((output.absolute(), Path(os.path.realpath(output)))):
        for above in (start, *start.parents):
            if _is_checkpoint(above):
                raise Refused(flag, str(path), f"lies in the checkpoint {above}; name another place")
            if above.name == "checkpoints" and _holds_steps(above):
                message = f"lies among the checkpoints of the run {above.parent}; name another folder"
                raise Refused(flag, str(path), message)
        for run in start.parents if start.is_file() else ():
            first, *below = start.relative_to(run).parts
            own = first in RUN_FOLDERS if below else RUN_FILES.fullmatch(first)
            if own and _is_run(run):
                raise Refused(flag, str(path), f"is a file of the run {run}; name another")


def _check_not_below(flag: str, path: Any, output: Path, name: Any) -> None:
    real = Path(os.path.realpath(output))
    for folder in _paths(name):
        if folder.is_dir() and real.is_relative_to(os.path.realpath(folder)):
            message = f"lies in {folder}, whose images are read: what is written there would be one of them"
            raise Refused(flag, str(path), f"{message}; name another place")


def _paths(name: Any) -> list[Path]:
    """The paths that a name may stand for: PATH, KIND:PATH, PATH:part, RUN@STEP."""
    if not isinstance(name, str | os.PathLike):
        return []
    text = os.fsdecode(name)
    kind, _, rest = text.partition(":")
    texts = [rest] if kind in KINDS else [text, rest, text.rpartition(":")[0], text.rpartition("@")[0]]
    found = []
    for one in dict.fromkeys(filter(None, texts)):
        try:
            path = expanded(one)
            found += [path] if path.exists() else []
        except (OSError, ValueError, RuntimeError):  # no path
            continue
    return found


def _files_of(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else iter(())


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are one file: by links of both kinds, or in another case where the system knows none."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one isn't there
        return False


def _is_checkpoint(folder: Path) -> bool:
    return all((folder / name).is_file() for name in CHECKPOINT_FILES)


def _holds_steps(folder: Path) -> bool:
    steps = [one for one in folder.iterdir() if one.name.isdecimal()] if folder.is_dir() else []
    return any((one / CHECKPOINT_FILES[0]).exists() for one in steps)


def _is_run(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(
        (folder / name).exists() for name in ("provenance.json", "metrics.jsonl", "checkpoints")
    )
