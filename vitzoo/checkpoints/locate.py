"""From what a user writes (`RUN`, `RUN@best`, `RUN@STEP`, `RUN/checkpoints/STEP`) to one verified checkpoint folder.

A checkpoint is of the run in whose folder it lies by what it says of itself, compared with the run's `config.json`.
"""

import dataclasses
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo import literals, strict_json
from vitzoo.checkpoints import manifest, metadata, steps
from vitzoo.checkpoints.metadata import Description
from vitzoo.checkpoints.steps import CHECKPOINTS, best_step
from vitzoo.config.fields import first_other
from vitzoo.errors import UserError
from vitzoo.paths import check_checkpoint_can_be_read, named_path, readable_path
from vitzoo.strict_json import JSON

CONFIG = "config.json"
_NAMES = (("model", "name"), ("model", "variant"), ("objective", "name"))
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Names by which others publish weights in a folder, best first."""


@dataclasses.dataclass(frozen=True)
class Located:
    """One checkpoint on disk, verified.

    Attributes:
        folder: the step's folder, with the items `params`, `ema` (if on), `optimizer`, `loop`.
        step: batches consumed when it was saved.
        run: the run folder it belongs to; None for a step folder that was copied elsewhere.
        description: the content of `model.json`.
    """

    folder: Path
    step: int
    run: Path | None
    description: Description


def locate(checkpoint: str | Path) -> Located:
    """Find and verify a checkpoint of vitzoo.

    Args:
        checkpoint: a run folder (its newest step that verifies), `RUN@best`, `RUN@STEP`, or a step's folder, also one
            copied elsewhere.

    Raises:
        UserError: nothing is there, it is no checkpoint of vitzoo, it is damaged, or of another model or objective than
            the run's `config.json`; says what was looked for and what is there.
    """
    text = str(checkpoint)
    if not text.strip() or text.endswith("@"):
        raise UserError(
            "checkpoint", text or "''", "names no checkpoint; write RUN, RUN@best, RUN@STEP or a step's folder"
        )
    path = named_path("checkpoint", text)
    if path.is_dir() and (path / manifest.MANIFEST).exists():
        return _checked(text, path, _run_of(path))
    run, _, which = (text, "", "") if path.exists() or "@" not in text else text.rpartition("@")
    run_folder = named_path("checkpoint", run)
    if not run_folder.exists():
        raise UserError("checkpoint", text, f"{run_folder} does not exist{_nearby(run_folder)}")
    readable_path("checkpoint", run)
    folder = run_folder / CHECKPOINTS
    steps.check_names("checkpoint", text, folder)
    if not steps.listed(folder):
        raise UserError("checkpoint", text, _not_a_run(run_folder))
    if which:
        return _checked(text, folder / str(_named_step(text, run_folder, which)), run_folder)
    found = steps.newest(folder)
    if found.step is None:
        raise UserError(
            "checkpoint", text, f"no checkpoint of it verifies: {'; '.join(str(e) for _, e in found.damaged)}"
        )
    if warning := found.warning():
        print(f"warning: damaged checkpoint: {warning}", file=sys.stderr)
    return _checked(text, folder / str(found.step), run_folder, verified=True)


def _named_step(text: str, run: Path, which: str) -> int:
    folder = run / CHECKPOINTS
    there = steps.listed(folder)
    step: int | None
    if which == "best":
        step = best_step(text, run)
    elif (step := literals.counted(which)) is None:
        raise UserError("checkpoint", text, f"after @ comes best or a step; there are {_join(there)}")
    if step not in there:
        raise UserError("checkpoint", text, f"step {step} is not in {folder}; there are {_join(there)}")
    return step


def _checked(text: str, folder: Path, run: Path | None, verified: bool = False) -> Located:
    check_checkpoint_can_be_read("checkpoint", folder)
    try:
        if not verified:
            steps.verify(folder)
        content = metadata.read_description(folder)
    except manifest.Damaged as error:
        raise UserError("checkpoint", text, str(error)) from None
    if other := stray(run, content):
        raise UserError("checkpoint", text, f"{folder} {other}; to use it, move it out of this run's folder")
    return Located(folder, int(content["step"]), run, content)


def _run_of(folder: Path) -> Path | None:
    return folder.parent.parent if folder.parent.name == CHECKPOINTS else None


def _not_a_run(path: Path) -> str:
    if any((path / name).is_file() for name in WEIGHTS):
        return published_weights(str(path), "holds")
    if path.is_file():
        return "is a file, not a run folder or a checkpoint folder"
    if path.parent.name == CHECKPOINTS and steps.is_step(path.name):
        return f"has no {manifest.MANIFEST}, so it is no complete checkpoint; it holds {_contents(path)}"
    return (
        f"is neither a run folder (looked for {path / CHECKPOINTS}/STEP) nor a checkpoint "
        f"(looked for {path / manifest.MANIFEST}) nor published weights ({WEIGHTS[0]} and others); "
        f"it holds {_contents(path)}{_further_in(path)}"
    )


def published_weights(path: str, what: str) -> str:
    """What to say of published weights where only a checkpoint of vitzoo's own will do: `holds`, `is the name of`."""
    return (
        f"{what} published weights, and a run or checkpoint of vitzoo's own is needed here; "
        f"`vitzoo convert {shlex.quote(path)} NEW_FOLDER` makes one of them"
    )


def _further_in(path: Path) -> str:
    """Where below a folder weights lie, if they do."""
    depths = ("*/", "*/*/")
    found = next((file for depth in depths for name in WEIGHTS for file in sorted(path.glob(f"{depth}{name}"))), None)
    return "" if found is None else f"; did you mean {shlex.quote(str(found.parent))}?"


def _contents(path: Path) -> str:
    return _join(sorted(p.name + "/" * p.is_dir() for p in path.iterdir())) or "nothing"


def _nearby(path: Path) -> str:
    parent = path.parent
    while not parent.exists():
        parent = parent.parent
    return f"; {parent} holds {_contents(parent)}" if parent.is_dir() else ""


def _join(items: list) -> str:
    shown = [str(item) for item in items[:8]]
    return ", ".join(shown) + (f" and {len(items) - 8} more" if len(items) > 8 else "")


def other_name(values: Mapping[str, JSON], description: Description) -> str:
    """What tells a checkpoint's model or objective apart from its run's; empty where nothing does.

    Args:
        values: of the run's config; what it leaves out, as with `init_from`, may be anything.
        description: the content of the checkpoint's `model.json`.
    """
    sections: Mapping[str, Mapping[str, Any]] = {name: description[name] for name in ("model", "objective")}
    for section, field in _NAMES:
        stated = values.get(section)
        wanted = stated.get(field) if isinstance(stated, dict) else None
        if wanted and wanted != (found := sections[section].get(field, "")):
            return of_another_run(f"{section}.{field}", found, wanted)
    return ""


def other_setting(wanted: Mapping[str, Any], found: Mapping[str, Any], section: str) -> str:
    """The same of all settings that both have.

    Args:
        wanted: the run's, by name.
        found: the checkpoint's.
        section: that they are of.
    """
    for name, value in json.loads(json.dumps(dict(wanted))).items():
        if name in found and _plain(found[name]) != _plain(value):
            return of_another_run(f"{section}.{name}", found[name], value)
    return ""


def other_meaning(values: Mapping[str, JSON], description: Description) -> str:
    """The same of all settings of the run's meaning, where the checkpoint has kept them.

    Args:
        values, description: as for `other_name`.
    """
    kept = description.get(metadata.CONFIG, {})
    other = first_other(kept, json.loads(json.dumps(values))) if kept else None
    return of_another_run(*other) if other else ""


def _plain(value: Any) -> Any:
    """A setting's value, comparable: 8 and [8, 8] are the same size."""
    return value[0] if isinstance(value, list) and value and all(one == value[0] for one in value) else value


def of_another_run(setting: str, found: JSON, wanted: JSON) -> str:
    """What is said of a checkpoint with another value of a setting than its run has."""
    here, there = ("none" if value in (None, "") else value for value in (found, wanted))
    return f"is of another run: its {setting} is {here}, this run's ({CONFIG}) {there}"


def stray(run: Path | None, description: Description) -> str:
    """What tells a checkpoint in a run's folder apart; empty where there is no config that can be read."""
    values = run_values(run)
    return (other_name(values, description) or other_meaning(values, description)) if values else ""


def run_values(run: Path | None) -> dict[str, JSON]:
    """The config's values that a run was started with; empty where there are none that can be read."""
    try:
        values = {} if run is None else strict_json.read(run / CONFIG)
    except (OSError, ValueError):  # whoever needs them says so
        return {}
    return values if isinstance(values, dict) else {}
