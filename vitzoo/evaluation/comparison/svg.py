"""Curves as SVG, by hand: a page then needs no script and no font of anybody's."""

import html
from collections.abc import Sequence

WIDTH, HEIGHT = 460, 280
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 36
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")
DASHES = ("", "6 3", "2 2", "8 3 2 3")

Line = tuple[str, int, int, Sequence[float], Sequence[float]]
"""A name, the number of its colour and of its dashes, steps and values."""


def chart(lines: Sequence[Line]) -> str:
    """Lines in one frame, axes from the least to the largest step and value."""
    steps = [step for line in lines for step in line[3]]
    values = [value for line in lines for value in line[4]]
    across, up = (min(steps), max(steps)), (min(values), max(values))
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">', _frame(across, up)]
    for name, color, dash, own_steps, own_values in lines:
        points = " ".join(
            f"{x_of(step, across):.2f},{y_of(value, up):.2f}" for step, value in zip(own_steps, own_values, strict=True)
        )
        how = f'fill="none" stroke="{COLORS[color % len(COLORS)]}" stroke-width="1.5"'
        dashes = f' stroke-dasharray="{DASHES[dash % len(DASHES)]}"' if DASHES[dash % len(DASHES)] else ""
        told = html.escape(f"{name}: last {own_values[-1]!r} at step {own_steps[-1]}")
        parts.append(f'<polyline {how}{dashes} points="{points}"><title>{told}</title></polyline>')
        if len(own_steps) == 1:
            x, y = points.split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{COLORS[color % len(COLORS)]}"/>')
    return "\n".join([*parts, "</svg>"])


def x_of(step: float, across: tuple[float, float]) -> float:
    """Where a step stands, in pixels from the left."""
    return LEFT + _share(step, across) * (WIDTH - LEFT - RIGHT)


def y_of(value: float, up: tuple[float, float]) -> float:
    """Where a value stands, in pixels from the top."""
    return HEIGHT - BOTTOM - _share(value, up) * (HEIGHT - TOP - BOTTOM)


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return 0.5 if high == low else (value - low) / (high - low)


def _frame(across: tuple[float, float], up: tuple[float, float]) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        f'<rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}" fill="none" stroke="#bbb"/>',
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 4}" text-anchor="middle">step</text>',
    ]
    for place, step in ((LEFT, across[0]), (right, across[1])):
        anchor = "start" if place == LEFT else "end"
        parts.append(f'<text x="{place}" y="{bottom + 14}" text-anchor="{anchor}">{step:g}</text>')
    for place, value in ((bottom, up[0]), (TOP + 10, up[1])):
        parts.append(f'<text x="{LEFT - 4}" y="{place}" text-anchor="end">{value:.4g}</text>')
    return "\n".join(parts)
