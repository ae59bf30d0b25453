"""Fills the disk of a running training, or makes it read-only, before a save.

    python scripts/drills/disk.py [--count 5] [--workdir DIR]

Must hold: the run stops with exit code 1 and one line that says why, and the checkpoint before is whole; with room
again, the same command goes on. Where the drill may mount one (as root), the run lies on a small disk of its own in
memory; elsewhere a limit on the size of a file takes the part of the full disk.
"""

import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import common

from vitzoo.checkpoints import manifest

LONG = ["--config.total_steps=20000", "--config.checkpoint.every_steps=40", "--config.evaluate.test.every_steps=19999"]
SAYS = {"full": ("No space left", "File too large"), "read-only": ("Read-only",)}


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 5, given)
    score = common.Score("disks that fail", options.count)
    with common.folder_of(options) as folder:
        for number in range(options.count):
            with small_disk(folder / f"disk-{number}") as disk:
                own = disk.is_mount()
                how = ("full", "read-only")[number % 2] if own else "full"
                said, wrong = fail(disk, how, own)
                score.add(f"{how}{'' if own else ' (a limit)'}: {said}", wrong)
    return score.end()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 24 MB at the folder, where it may be mounted; else the folder."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "vitzoo", str(folder)], capture_output=True)
    try:
        yield folder
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)  # with the views in it


def fail(disk: Path, how: str, own: bool) -> tuple[str, list[str]]:
    """Train until the disk fails; what happened, and what did not hold."""
    workdir, log = disk / "run", disk.with_name(f"{disk.name}.log")
    command = [*common.TRAIN, "--config", common.config_of(), "--workdir", str(workdir), *LONG]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=common.environment())
    common.wait_for(lambda: bool(common.saved(workdir)), [process])
    if how == "read-only":
        # the disk itself has open files; a view of the checkpoints' folder over that folder has none
        there = str(workdir / "checkpoints")
        subprocess.run(["mount", "--bind", there, there], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", there], check=True)
    elif own:
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"\0" * 4096)
    else:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, 1))  # type: ignore[attr-defined]
    code = common.ends([process])[0]
    line = log.read_text().strip().splitlines()[-1]
    wrong = [f"exit code {code}"] * (code != 1)
    wrong += [f"says {line}"] * (not any(cause in line for cause in SAYS[how]))
    return f"exit code {code}: {line[:100]}", wrong + not_whole(workdir)


def not_whole(workdir: Path) -> list[str]:
    """What does not hold of the checkpoints that are left."""
    steps = common.saved(workdir)
    for step in steps:
        try:
            manifest.verify(workdir / "checkpoints" / str(step))
        except manifest.Damaged as error:
            return [str(error)]
    return [] if steps else ["no checkpoint is left"]


if __name__ == "__main__":
    sys.exit(main())
