"""`vitzoo train --dry-run`: what a run would be, and whether it could begin."""

from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.cli.output import Result, table
from vitzoo.config import Resolved
from vitzoo.config.fields import rows
from vitzoo.nn.paths import display, flatten


def dry_run(resolved: Resolved, workdir: str | None) -> Result:
    """Prints every setting with its source, what the run's folder holds, the counted data, what the rules do to each
    parameter and what becomes of the weights it starts from; then stops.

    Raises:
        Refused: as `train` would, before its first step.
    """
    from vitzoo.training import setup
    from vitzoo.training.look import look

    print(f"{resolved.name}\n")
    settings = rows(resolved.values, resolved.sources)
    print(table((f"  {name}", value, f"({source})") for name, value, source, _ in settings))
    result = {"config": resolved.values, "sources": resolved.sources, "notes": resolved.notes}
    there = look(Path(workdir), resolved) if workdir else None
    if there and there.finished:
        print(f"\n{workdir} is finished (step {there.found:,}): training would do nothing.")
        return Result({**result, "finished": True})
    task = setup.prepare(resolved, setup.mesh_of(resolved.experiment))
    try:
        return Result({**result, "finished": False, **_shown_task(task, there)})
    finally:
        task.stream.close()


def _shown_task(task: Any, there: Any) -> dict[str, Any]:
    from vitzoo.training import header, start

    if there:
        start.check(task, there.store, there.found)
    leaves = _leaves(task)
    print(f"\nparameters: {task.parameters:,}\n")
    titles = ["  leaf", "shape", "laid out over", "weight decay", "learning rate"]
    print(table([titles, *([f"  {leaf['path']}", *map(_shown, list(leaf.values())[1:])] for leaf in leaves)]))
    data = {"train": {"name": task.info.name, "split": task.info.split, "n": task.info.n}}
    data |= {name: _counted(evaluation) for name, evaluation in task.evaluations.items()}
    print("\ndata:\n")
    print(table([f"  {name}", f"{d['name']} {d['split']}", f"{d['n']:,} examples"] for name, d in data.items()))
    print()
    folder, found = (there.store.folder.parent, there.found) if there else (None, None)
    for word, text in header.plan(task, folder, found).items():
        print(f"{word:8}{text}")
    new = task.pretrained is not None and found is None and not task.resolved.experiment.init_from_state
    weights = start.pretrained_parameters(task)[1] if new else []
    notes = [*task.info.notes, *header.warnings(task)]
    for line in [*weights, *notes, *header.changes(there.differences if there else {})]:
        print(line)
    print("\nNothing was trained or written (--dry-run).")
    return {
        "parameters": task.parameters,
        "total_steps": task.total_steps,
        "data": data,
        "leaves": leaves,
        "weights": weights,
        "warnings": notes,
    }


def _counted(evaluation: Any) -> dict[str, Any]:
    info = evaluation.source.info
    return {"name": info.name, "split": info.split, "n": info.n}


def _leaves(task: Any) -> list[dict[str, Any]]:
    shapes, places = flatten(task.state["params"]), flatten(task.shardings["params"])
    found = []
    for path, leaf in shapes.items():
        rule = task.chain.rules[path]
        axes = [",".join(axis) if isinstance(axis, tuple) else axis for axis in places[path].spec]
        found.append(
            {
                "path": display(path),
                "shape": list(leaf.shape),
                "axes": axes,
                "weight_decay": float(rule.decay),
                "learning_rate": 0.0 if rule.frozen else np.ravel(np.asarray(rule.multiplier, np.float64)).tolist(),
            }
        )
    return found


def _shown(value: Any) -> str:
    if not isinstance(value, list):
        return f"{value:g}" if value else "-"
    if value and all(isinstance(item, float) for item in value):
        low, high = min(value), max(value)
        return f"x {low:.4g}" if low == high else f"x {low:.4g} to {high:.4g}"
    return ",".join(str(item or "-") for item in value) if any(value) else "all"
