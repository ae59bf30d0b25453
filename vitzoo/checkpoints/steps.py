"""Which steps a `checkpoints/` folder holds, the newest of them that verifies, and the best."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

from vitzoo import strict_json
from vitzoo.checkpoints import manifest, metadata
from vitzoo.errors import UserError
from vitzoo.paths import contents

CHECKPOINTS = "checkpoints"
"""The folder of a run that holds its steps."""


class Newest(NamedTuple):
    """What the walk from the newest step down found."""

    step: int | None
    damaged: list[tuple[int, manifest.Damaged]]  # newer than `step`, newest first

    def warning(self) -> str | None:
        """One line naming what was passed over, or None."""
        if not self.damaged:
            return None
        instead = "no older one is left" if self.step is None else f"step {self.step} is used"
        return f"{'; '.join(str(error) for _, error in self.damaged)}: {instead}"


def listed(folder: Path) -> list[int]:
    """The steps that have a folder, ascending; a name alone does not make it a checkpoint."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if is_step(path.name) and path.is_dir())


def is_step(name: str) -> bool:
    """Whether a folder of this name is one of a step: a plain integer, as it is written."""
    return name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0")


def _is_number(name: str) -> bool:
    """Whether a name may be taken for a step's, though it isn't written as one: `06`, `+6`, `6.0`, digits of another
    script.
    """
    try:
        return float(name).is_integer()
    except ValueError:
        return False


def check_names(field: str, value: str | Path, folder: Path) -> None:
    """Refuses a checkpoint whose folder isn't called by its step: nobody would find it there. What has a dot in its
    name was put aside.

    Args:
        field, value: the setting that names the run, and how.
        folder: of a run's checkpoints.

    Raises:
        UserError: there is one.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        is_aside = "." in path.name and not _is_number(path.name)
        is_checkpoint = all((path / name).is_file() for name in (manifest.MANIFEST, metadata.FILE))
        if is_step(path.name) or is_aside or not is_checkpoint:
            continue
        try:
            step = str(metadata.read_description(path)["step"])
        except manifest.Damaged as error:
            raise UserError(field, str(value), f"{error}; its folder is called by no step: move it away") from None
        rename = "" if (folder / step).exists() else f"call it {step}, or "
        message = f"{folder} holds the checkpoint of step {step} under the name {path.name!a}"
        raise UserError(field, str(value), f"{message}; {rename}move it away")


def verify(folder: Path) -> None:
    """Compare a step's folder with its manifest, and its name with the step of which its files tell.

    Raises:
        Damaged: as `manifest.verify` and `metadata.read_loop`; or it lies among a run's checkpoints under the name of
            another step.
    """
    manifest.verify(folder)
    metadata.read_loop(folder)
    is_copy = folder.parent.name != CHECKPOINTS or not _is_number(folder.name)  # elsewhere any name will do
    if not is_copy and str(step := metadata.read_description(folder)["step"]) != folder.name:
        raise manifest.Damaged(folder, f"holds the checkpoint of step {step} under another name")


def newest(folder: Path) -> Newest:
    """The newest step below `folder` that verifies, and the damaged ones that are newer."""
    damaged: list[tuple[int, manifest.Damaged]] = []
    for step in reversed(listed(folder)):
        try:
            verify(folder / str(step))
            return Newest(step, damaged)
        except manifest.Damaged as error:
            damaged.append((step, error))
    return Newest(None, damaged)


def set_aside(folder: Path, step: int) -> None:
    """Rename a damaged step to `STEP.damaged`, so that it is never taken for a checkpoint and the step can be saved."""
    source, target, count = folder / str(step), folder / f"{step}.damaged", 1
    if not any(path.is_file() for path in source.rglob("*")):
        _remove_empty(source)
        return
    while target.exists():
        count += 1
        target = folder / f"{step}.damaged-{count}"
    source.rename(target)


def _remove_empty(folder: Path) -> None:
    for path in folder.iterdir():
        _remove_empty(path)
    folder.rmdir()


def best_step(text: str, run: Path) -> int:
    """The step that a run's newest checkpoint names as the best so far.

    Args:
        text: what the user wrote, for the message.
        run: the run's folder.

    Raises:
        UserError: the run keeps no best, or a newer checkpoint is damaged, which may be the best or know of a better
            one.
    """
    folder = run / CHECKPOINTS
    found = newest(folder)
    reasons = [str(error) for _, error in found.damaged]
    if found.step is None:
        raise UserError("checkpoint", text, f"no checkpoint of it verifies: {'; '.join(reasons)}")
    best = metadata.read_loop(folder / str(found.step)).get("best")
    if best is None:
        raise UserError(
            "checkpoint", text, "this run keeps no best checkpoint (config.checkpoint.keep_best is not set)"
        )
    reasons += [f"{folder / name} is damaged" for name in _set_aside(folder, found.step)]
    if reasons:
        raise UserError(
            "checkpoint",
            text,
            f"{'; '.join(reasons)}: it may be the best, or know a better one. The newest good checkpoint, "
            f"{found.step}, names step {best['step']}: write {run}@{best['step']} if you mean that one",
        )
    if later := _evaluated_later(run, found.step):
        print(
            f"warning: {text}: checkpoint {found.step} names step {best['step']} as the best ({best['value']:.6g}); "
            f"step {later[0]} was evaluated later ({later[1]}), and no checkpoint from then on is left",
            file=sys.stderr,
        )
    return best["step"]


def _set_aside(folder: Path, step: int) -> list[str]:
    """The damaged checkpoints of later steps that a run has moved out of its way."""
    names = sorted(path.name for path in folder.glob("*.damaged*"))
    return [name for name in names if is_step(number := name.partition(".")[0]) and int(number) > step]


def _evaluated_later(run: Path, step: int) -> tuple[int, str] | None:
    """The first step after `step` of which the run has written the metric that it keeps the best by, and the metric."""
    try:
        evaluator, _, metric = strict_json.read(run / "config.json")["checkpoint"]["keep_best"].partition("/")
        lines = contents(run / "metrics.jsonl").splitlines()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # whoever needs these files says what is wrong with them
    for line in map(_parsed, lines):
        value = line.get(metric)
        if line.get("split") != evaluator or not isinstance(value, int | float) or type(line.get("step")) is not int:
            continue
        if line["step"] > step:
            return line["step"], f"{metric} {value:.6g}"
    return None


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        content = strict_json.parsed(line, finite=True)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
