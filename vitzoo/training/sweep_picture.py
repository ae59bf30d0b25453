"""`sweep.png`: the metric of a sweep over each of its settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitzoo.fonts import save_figure

Scored = Sequence[tuple[Mapping[str, str], float | None]]


def draw(path: Path, metric: str, runs: Scored) -> bool:
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
