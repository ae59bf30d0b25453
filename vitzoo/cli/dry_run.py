"""`vitzoo train --dry-run`: what a run would be, from shapes alone."""

from typing import Any

import numpy as np

from vitzoo.cli.output import Result, table
from vitzoo.config import Resolved
from vitzoo.config.fields import rows
from vitzoo.nn.paths import display, flatten


def dry_run(resolved: Resolved) -> Result:
    """Prints every setting with its source, the counted data, and what the rules do to each parameter; then stops."""
    from vitzoo.training import setup

    print(f"{resolved.name}\n")
    print(
        table((f"  {name}", value, f"({source})") for name, value, source, _ in rows(resolved.values, resolved.sources))
    )
    task = setup.prepare(resolved, setup.mesh_of(resolved.experiment))
    try:
        leaves = _leaves(task)
        print(f"\nparameters: {task.parameters:,}\n")
        header = ["  leaf", "shape", "laid out over", "weight decay", "learning rate"]
        print(table([header, *([f"  {leaf['path']}", *map(_shown, list(leaf.values())[1:])] for leaf in leaves)]))
        data = {"train": {"name": task.info.name, "split": task.info.split, "n": task.info.n}}
        data |= {name: _counted(evaluation) for name, evaluation in task.evaluations.items()}
        print("\ndata:\n")
        print(table([f"  {name}", f"{d['name']} {d['split']}", f"{d['n']:,} examples"] for name, d in data.items()))
        epochs = task.progress(task.total_steps)["epoch"]
        print(f"\n{task.total_steps:,} steps, {epochs:.4g} epochs. Nothing was trained or written (--dry-run).")
    finally:
        task.stream.close()
    return Result(
        {
            "config": resolved.values,
            "sources": resolved.sources,
            "notes": resolved.notes,
            "parameters": task.parameters,
            "total_steps": task.total_steps,
            "data": data,
            "leaves": leaves,
        }
    )


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
