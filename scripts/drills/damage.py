"""Damages a file of a checkpoint (a flipped bit, a cut, a missing file), anywhere in it.

    python scripts/drills/damage.py [--count 200] [--resumed 10] [--seed 0] [--workdir DIR]

Must hold: the damage is found and the file named; training goes on from the newest good checkpoint with a warning,
evaluation refuses the damaged one. `--resumed` rounds are whole trainings that end with the undisturbed run's losses;
the others look for the damage alone. Files that Orbax rewrites after the commit hold no values and are left alone.
"""

import contextlib
import io
import random
import shutil
import sys
from pathlib import Path

import common

import vitzoo
from vitzoo.checkpoints import locate, manifest
from vitzoo.checkpoints.store import Store
from vitzoo.errors import UserError

HOW = ("bit flip", "truncation", "missing file")
GOOD, BAD, END = 6, 12, 18


def main(given: list[str] | None = None) -> int:
    options = common.arguments(__doc__, 200, given, resumed=10)
    moments, score = random.Random(options.seed), common.Score("damaged checkpoints", options.count + options.resumed)
    with common.folder_of(options) as folder:
        run, straight = folder / "run", folder / "straight"
        train(run, BAD)
        train(straight, END)
        for number in range(options.count):
            file, how, content = damage(run, moments, number)
            wrong = not_found(run, file)
            file.write_bytes(content)
            score.add(f"{how}, {file.relative_to(run)}", wrong)
        for number in range(options.resumed):
            copy = folder / f"copy-{number}"
            shutil.copytree(straight, copy)
            shutil.rmtree(copy / "checkpoints" / str(END))
            file, how, _ = damage(copy, moments, number)
            score.add(f"{how}, {file.relative_to(copy)}, resumed", resumed(copy, straight, file))
    return score.end()


def train(workdir: Path, steps: int) -> str:
    """Train to the end; what was printed to standard error."""
    said = io.StringIO()
    config = common.get_config()
    config.checkpoint = dict(every_steps=6, keep=3)
    with contextlib.redirect_stderr(said):
        vitzoo.train(config, workdir, {"total_steps": steps})
    return said.getvalue()


def damage(run: Path, moments: random.Random, number: int) -> tuple[Path, str, bytes]:
    """Damage some file of the newest checkpoint; the file, how, and what it held."""
    folder, how = run / "checkpoints" / str(BAD), HOW[number % len(HOW)]
    file = moments.choice([*(folder / name for name in sorted(manifest.read(folder))), folder / manifest.MANIFEST])
    content = file.read_bytes()
    if how == "missing file" or not content:
        file.unlink()
    elif how == "truncation":
        file.write_bytes(content[: moments.randrange(len(content))])
    else:
        place = moments.randrange(len(content))
        file.write_bytes(content[:place] + bytes([content[place] ^ 1 << moments.randrange(8)]) + content[place + 1 :])
    return file, how, content


def not_found(run: Path, file: Path) -> list[str]:
    """What does not hold of a look for it."""
    said, wrong = io.StringIO(), []
    with contextlib.redirect_stderr(said):
        found = Store(run / "checkpoints").look().step
    wrong += [f"training takes {found}"] * (found != GOOD)
    wrong += [f"warns {said.getvalue()}"] * (not names(said.getvalue(), file))
    try:
        locate.locate(f"{run}@{BAD}")
        wrong.append("evaluation takes it")
    except UserError as refusal:
        wrong += [f"refuses {refusal}"] * (not names(str(refusal), file))
    return wrong


def names(said: str, file: Path) -> bool:
    """Whether the file is named; a damaged manifest may name a file that never was."""
    return str(file) in said or (file.name == manifest.MANIFEST and str(file.parent) in said)


def resumed(copy: Path, straight: Path, file: Path) -> list[str]:
    """What does not hold of a training that goes on in the damaged run."""
    said = train(copy, END)
    wrong = [] if "warning: damaged checkpoint" in said and names(said, file) else [f"warns {said}"]
    return wrong + common.differences(straight, copy, relative=0.0)


if __name__ == "__main__":
    sys.exit(main())
