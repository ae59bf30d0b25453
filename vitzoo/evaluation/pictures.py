"""Pictures of evaluations: the confusion matrix, the most confident mistakes, and curves as SVG.

Curves are written by hand: a page then needs no script and no font of anybody's.
"""

import html
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Literal

import numpy as np

from vitzoo.evaluation.settings import Rows
from vitzoo.evaluation.tables import confusion
from vitzoo.fonts import save_figure

WITH_NUMBERS = 20  # classes up to which every cell of the matrix can be read
DRAWN = 2000  # classes up to which the matrix fits in memory and in a picture
SHEET = 36  # mistakes on the contact sheet


def figure(width: float, height: float, layout: Literal["constrained", "compressed", "tight"] | None = "constrained"):
    """A Matplotlib figure of that many inches that needs no display and leaves pyplot's state alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(picture)
    return picture


def short(text: str, length: int = 22) -> str:
    """A name cut in its middle to what fits beside a picture, without Matplotlib's mathematics."""
    half = length // 2
    cut = text if len(text) <= length else f"{text[: length - half - 1]}…{text[-half:]}"
    return cut.replace("$", r"\$")


def draw_confusion(rows: Rows, names: Sequence[str], path: Path) -> bool:
    """Draw the confusion matrix, each row as fractions of its true class.

    Up to 20 classes every cell has its count and its share of the row, and every row its name; above that the matrix is
    an image, and beside it stand the pairs that are confused most often.

    Returns:
        Whether it was drawn: above 2,000 classes, and where examples have several labels, it isn't.
    """
    if len(names) > DRAWN or rows["label"].ndim == 2:
        return False
    counts = confusion(rows, len(names))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    few = len(names) <= WITH_NUMBERS
    side = 2.5 + 0.55 * len(names) if few else 9
    picture = figure(side + (1 if few else 5), side)
    axes, *rest = picture.subplots(1, 1 if few else 2, width_ratios=[1] if few else [9, 4], squeeze=False)[0]
    # the root lets rare confusions be seen where a cell is hardly a pixel
    axes.imshow(
        shares if few else np.sqrt(shares),
        cmap="Blues",
        vmin=0,
        vmax=1,
        interpolation="nearest" if few else "antialiased",
    )
    right, every = int(np.trace(counts)), int(counts.sum())
    title = f"{right:,} of {every:,} right ({right / max(every, 1):.1%}); each row: shares of a true class"
    axes.set(xlabel="predicted", ylabel="true")
    axes.set_title(title, loc="left", fontsize=9)
    if few:
        write_cells(axes, counts, shares, names)
    else:
        list_confused(rest[0], counts, names)
    save_figure(picture, path, dpi=120)
    return True


def write_cells(axes, counts: np.ndarray, shares: np.ndarray, names: Sequence[str]) -> None:
    """Names on both axes, and the count and its share of the row in every cell that has one."""
    labels = [short(name) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), labels)
    for row, column in zip(*np.nonzero(counts), strict=True):
        colour = "white" if shares[row, column] > 0.5 else "black"
        said = f"{counts[row, column]}\n{shares[row, column]:.0%}"
        axes.text(column, row, said, ha="center", va="center", color=colour, fontsize=7)


def list_confused(axes, counts: np.ndarray, names: Sequence[str], most: int = 30) -> None:
    """The most frequent confusions as text, since single cells can't be read."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(wrong, axis=None, kind="stable")[::-1][:most]
    pairs = [np.unravel_index(flat, wrong.shape) for flat in order]
    lines = [f"{wrong[t, p]:6d}  {short(names[t], 20)} → {short(names[p], 20)}" for t, p in pairs if wrong[t, p]]
    axes.axis("off")
    axes.set_title("confused most often (true → predicted)", loc="left", fontsize=9)
    axes.text(0, 1, "\n".join(lines), va="top", family="monospace", fontsize=8, transform=axes.transAxes)


def mistakes(rows: Rows, most: int = SHEET) -> np.ndarray:
    """Indices into the rows of the most confident mistakes, worst first.

    For one label: wrong predictions by falling probability. For several: examples by the largest gap between a label
    and its probability, where that is above one half.
    """
    if rows["label"].ndim == 2:
        gap = np.abs(rows["label"] - rows["probability"]).max(axis=1)
        wrong = np.flatnonzero(gap > 0.5)
    else:
        gap, wrong = rows["probability"], np.flatnonzero(rows["rank"] > 0)
    return wrong[np.argsort(-gap[wrong], kind="stable")][:most]


def caption(rows: Rows, index: int, names: Sequence[str]) -> str:
    """What the model said of an example, and what it is."""
    if rows["label"].ndim == 2:
        worst = int(np.abs(rows["label"][index] - rows["probability"][index]).argmax())
        is_so = "has" if rows["label"][index, worst] > 0.5 else "has no"
        return f"{is_so} {short(names[worst])}\nsaid {rows['probability'][index, worst]:.0%}"
    said, label = names[rows["prediction"][index]], names[rows["label"][index]]
    return f"is {short(label)}\nsaid {short(said)} {rows['probability'][index]:.0%}"


def draw_mistakes(
    rows: Rows,
    names: Sequence[str],
    image: Callable[[int], np.ndarray],
    path: Path,
    files: Sequence[str] | None = None,
) -> bool:
    """Draw a contact sheet of the most confident mistakes.

    Args:
        image: position in the dataset to uint8 `[height, width, channels]`.
        files: of the dataset's examples, where they are files, by position.

    Returns:
        Whether there was a mistake to draw.
    """
    worst = mistakes(rows)
    if not len(worst):
        return False
    across = min(6, len(worst))
    down = -(-len(worst) // across)
    height = 2.3 if files is None else 2.45
    picture = figure(1.9 * across, height * down, layout=None)
    top = 1 - (height - 1.9) / (height * down)
    picture.subplots_adjust(left=0.02, right=0.98, bottom=0.02, top=top, hspace=(height - 1.7) / 2, wspace=0.1)
    for axes, index in zip(picture.subplots(down, across, squeeze=False).flat, worst, strict=False):
        position = int(rows["position"][index])
        pixels = image(position)
        axes.imshow(pixels[..., 0] if pixels.shape[-1] == 1 else pixels, cmap="gray", vmin=0, vmax=255)
        file = "" if files is None else f"{short(PurePath(files[position]).name)}\n"
        axes.set_title(f"{file}{caption(rows, int(index), names)}", fontsize=8)
    for axes in picture.axes:
        axes.axis("off")
    save_figure(picture, path, dpi=110)
    return True


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
