"""Which steps a `checkpoints/` folder holds, and the newest of them that verifies."""

from pathlib import Path
from typing import NamedTuple

from vitzoo.checkpoints import manifest


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
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())


def newest(folder: Path) -> Newest:
    """The newest step below `folder` that verifies, and the damaged ones that are newer."""
    damaged: list[tuple[int, manifest.Damaged]] = []
    for step in reversed(listed(folder)):
        try:
            manifest.verify(folder / str(step))
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
