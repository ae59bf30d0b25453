"""Which steps a `checkpoints/` folder holds, and the newest of them that verifies."""

from pathlib import Path
from typing import NamedTuple

from vitzoo.checkpoints import description, loop_values, manifest

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


def verify(folder: Path) -> None:
    """Compare a step's folder with its manifest, and its name with the step of which its files tell.

    Raises:
        Damaged: as `manifest.verify` and `loop_values.read`; or it lies among a run's checkpoints under the name of
            another step.
    """
    manifest.verify(folder)
    loop_values.read(folder)
    if folder.parent.name != CHECKPOINTS or not is_step(folder.name):  # copied elsewhere, where any name will do
        return
    if str(step := description.read(folder)["step"]) != folder.name:
        raise manifest.Damaged(folder, f"holds the checkpoint of step {step} under another step's name")


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
