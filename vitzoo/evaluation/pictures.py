"""A pass of the classification evaluator as pictures: the confusion matrix and the most confident mistakes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.evaluation.tables import confusion
from vitzoo.fonts import save_figure

Rows = Mapping[str, np.ndarray]
WITH_NUMBERS = 20  # classes up to which every cell of the matrix can be read
DRAWN = 2000  # classes up to which the matrix fits in memory and in a picture
SHEET = 36  # mistakes on the contact sheet


def figure(width: float, height: float, layout: Any = "constrained"):
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
    """Draw the confusion matrix, each row as shares of its true class.

    Up to 20 classes every cell has its count and every row its name; above that the matrix is an image, and beside it
    stand the pairs that are confused most often.

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
    axes.set(xlabel="predicted", ylabel="true")
    if few:
        write_cells(axes, counts, shares, names)
    else:
        list_confused(rest[0], counts, names)
    save_figure(picture, path, dpi=120)
    return True


def write_cells(axes, counts: np.ndarray, shares: np.ndarray, names: Sequence[str]) -> None:
    """Names on both axes and the count in every cell that has one."""
    labels = [short(name) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), labels)
    for row, column in zip(*np.nonzero(counts), strict=True):
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=colour, fontsize=8)


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


def draw_mistakes(rows: Rows, names: Sequence[str], image: Callable[[int], np.ndarray], path: Path) -> bool:
    """Draw a contact sheet of the most confident mistakes.

    Args:
        image: position in the dataset to uint8 `[height, width, channels]`.

    Returns:
        Whether there was a mistake to draw.
    """
    worst = mistakes(rows)
    if not len(worst):
        return False
    across = min(6, len(worst))
    down = -(-len(worst) // across)
    picture = figure(1.9 * across, 2.3 * down, layout=None)
    picture.subplots_adjust(left=0.02, right=0.98, bottom=0.02, top=1 - 0.4 / (2.3 * down), hspace=0.3, wspace=0.1)
    for axes, index in zip(picture.subplots(down, across, squeeze=False).flat, worst, strict=False):
        pixels = image(int(rows["position"][index]))
        axes.imshow(pixels[..., 0] if pixels.shape[-1] == 1 else pixels, cmap="gray", vmin=0, vmax=255)
        axes.set_title(caption(rows, int(index), names), fontsize=8)
    for axes in picture.axes:
        axes.axis("off")
    save_figure(picture, path, dpi=110)
    return True
