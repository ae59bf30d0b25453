"""`curves.png`: what a run's metrics did, for a first look."""

import os
from pathlib import Path

from vitzoo.training import metrics

FILE = "curves.png"
_NOT_CURVES = {"step", "split", "examples", "epoch", "seconds", "n", "skipped"}
_COLUMNS = 3


def draw(workdir: Path) -> Path | None:
    """Draw one panel a metric, one line a split, from `metrics.jsonl`; None where there is nothing to draw."""
    from matplotlib.figure import Figure

    panels = collect(metrics.read(workdir))
    if not panels:
        return None
    rows = -(-len(panels) // _COLUMNS)
    figure = Figure(figsize=(5 * min(len(panels), _COLUMNS), 3.5 * rows), layout="constrained")
    for place, (name, lines) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, min(len(panels), _COLUMNS), place)
        for split, (steps, values) in lines.items():
            axes.plot(steps, values, label=split, marker="." if len(steps) < 30 else None)
        axes.set(title=name.replace("_", " "), xlabel="step")
        axes.legend()
        axes.grid(alpha=0.3)
    file, partial = workdir / FILE, workdir / f".{FILE}.partial"
    figure.savefig(partial, format="png", dpi=110)
    os.replace(partial, file)
    return file


def collect(lines: list[dict]) -> dict[str, dict[str, tuple[list, list]]]:
    """Metric to split to (steps, values), in order of first appearance."""
    panels: dict[str, dict[str, tuple[list, list]]] = {}
    for line in lines:
        for name, value in line.items():
            if name not in _NOT_CURVES and isinstance(value, int | float):
                steps, values = panels.setdefault(name, {}).setdefault(line["split"], ([], []))
                steps.append(line["step"])
                values.append(value)
    return panels
