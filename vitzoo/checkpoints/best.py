"""Which step of a run is its best: what its newest checkpoint says, if nothing says that a later one was better."""

import sys
from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.checkpoints import loop_values, steps
from vitzoo.checkpoints.steps import CHECKPOINTS
from vitzoo.errors import UserError


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
    found = steps.newest(folder)
    reasons = [str(error) for _, error in found.damaged]
    if found.step is None:
        raise UserError("checkpoint", text, f"no checkpoint of it verifies: {'; '.join(reasons)}")
    best = loop_values.read(folder / str(found.step)).get("best")
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
    return [name for name in names if steps.is_step(number := name.partition(".")[0]) and int(number) > step]


def _evaluated_later(run: Path, step: int) -> tuple[int, str] | None:
    """The first step after `step` of which the run has written the metric that it keeps the best by, and the metric."""
    try:
        evaluator, _, metric = strict_json.read(run / "config.json")["checkpoint"]["keep_best"].partition("/")
        lines = (run / "metrics.jsonl").read_bytes().splitlines()
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
