"""Pictures of what metrics did: a run's `curves.png`, and a sweep's `sweep.png`, a metric over each of its settings."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitzoo.fonts import save_figure
from vitzoo.parallel import processes
from vitzoo.training import metrics

FILE = "curves.png"
_NOT_CURVES = {"step", "split", "examples", "epoch", "seconds", "n", "skipped"}
_COLUMNS = 3


def draw(workdir: Path) -> Path | None:
    """Draw one panel a metric, one line a split, from `metrics.jsonl`; None where there is nothing to draw,
    or another process does it.
    """
    if not processes.is_first():
        return None
    from matplotlib.figure import Figure

    panels = collect(metrics.read(workdir))
    if not panels:
        return None
    rows = -(-len(panels) // _COLUMNS)
    splits = list(dict.fromkeys(split for lines in panels.values() for split in lines))
    end = max(steps[-1] for lines in panels.values() for steps, _ in lines.values())
    figure = Figure(figsize=(5 * min(len(panels), _COLUMNS), 3.5 * rows), layout="constrained")
    for place, (name, lines) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, min(len(panels), _COLUMNS), place)
        for split, (steps, values) in lines.items():
            color = f"C{splits.index(split)}"  # a split looks the same in every panel
            axes.plot(steps, values, color, label=split, marker="." if len(steps) < 30 else None)
        axes.set(title=name.replace("_", " "), xlabel="step", xlim=(0, 1.02 * end))
        axes.legend()
        axes.grid(alpha=0.3)
    file, partial = workdir / FILE, workdir / f".{FILE}.partial"
    save_figure(figure, partial, format="png", dpi=110)
    os.replace(partial, file)
    return file


def collect(lines: list[dict]) -> dict[str, dict[str, tuple[list, list]]]:
    """Metric to split to (steps, values), in order of first appearance."""
    panels: dict[str, dict[str, tuple[list, list]]] = {}
    for line in lines:
        for name, value in line.items():
            if name not in _NOT_CURVES and _is_number(value):
                steps, values = panels.setdefault(name, {}).setdefault(line["split"], ([], []))
                steps.append(line["step"])
                values.append(value)
    return panels


def last(lines: list[dict]) -> dict[str, tuple[int, float | None]]:
    """By SPLIT/METRIC, in the order of `collect`, step and value of the last line that has it; None where that value
    was not finite: it is not the finite one of an earlier line.
    """
    found: dict[str, dict[str, tuple[int, float | None]]] = {}
    for line in lines:
        for name, value in line.items():
            if name not in _NOT_CURVES and (value is None or _is_number(value)):
                found.setdefault(name, {})[line["split"]] = (line["step"], value)
    return {f"{split}/{name}": entry for name, splits in found.items() for split, entry in splits.items()}


def weights(lines: list[dict]) -> str | None:
    """Which weights the last evaluation was of, `ema` or `raw`; None where there is none."""
    said = [line["weights"] for line in lines if isinstance(line.get("weights"), str)]
    return said[-1] if said else None


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and abs(value) < 2**63


Scored = Sequence[tuple[Mapping[str, str], float | None]]


def draw_sweep(path: Path, metric: str, runs: Scored) -> bool:
    """One panel a setting: its values across, the metric up, a line for each choice of the other settings.

    Returns:
        Whether there was anything to draw.
    """
    from matplotlib.figure import Figure

    runs = [(values, score) for values, score in runs if score is not None]
    if not runs:
        return False
    settings = list(runs[0][0])
    figure = Figure(figsize=(5 * len(settings), 4), layout="constrained")
    for place, setting in enumerate(settings, 1):
        axes = figure.add_subplot(1, len(settings), place)
        _panel(axes, setting, runs)
        axes.set(title=metric if place == 1 else "", xlabel=setting)
        axes.grid(alpha=0.3)
    save_figure(figure, path, format="png", dpi=110)
    return True


def _panel(axes: Any, setting: str, runs: Scored) -> None:
    lines: dict[tuple[str, ...], list[tuple[str, float]]] = {}
    for values, score in runs:
        others = tuple(f"{key.rpartition('.')[2]}={value}" for key, value in values.items() if key != setting)
        lines.setdefault(others, []).append((values[setting], score or 0.0))
    numbers = _numbers([values[setting] for values, _ in runs])
    for others, points in lines.items():
        across = [numbers[text] if numbers else text for text, _ in points]
        pairs = sorted(zip(across, (score for _, score in points), strict=True)) if numbers else None
        x, y = zip(*pairs, strict=True) if pairs else (across, [score for _, score in points])
        axes.plot(x, y, marker="o", label=", ".join(others) if len(lines) <= 8 else None)
    if numbers and min(numbers.values()) > 0 and max(numbers.values()) >= 8 * min(numbers.values()):
        axes.set_xscale("log")
    if 1 < len(lines) <= 8:
        axes.legend()


def _numbers(texts: Sequence[str]) -> dict[str, float]:
    """The values as numbers; empty where one is none."""
    try:
        return {text: float(text) for text in texts}
    except ValueError:
        return {}
