"""Draws the training curves of a finished quickstart, as the README shows them.

vitzoo train --config quickstart --workdir runs/quickstart
python scripts/make_quickstart_picture.py runs/quickstart docs/images/quickstart.svg
"""

import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from vitzoo.training import curves, metrics

PANELS = {"loss": "loss", "accuracy": "accuracy"}
COLORS = {"train": "#4060a0", "test": "#d07030"}


def draw(run: Path, file: Path) -> None:
    """Writes an SVG of two panels, the loss and the accuracy of both splits over the steps.

    Args:
        run: a run's folder.
        file: the picture.
    """
    panels = curves.collect(metrics.read(run))
    figure = Figure(figsize=(9, 3), layout="constrained")
    for place, (name, title) in enumerate(PANELS.items(), 1):
        axes = figure.add_subplot(1, len(PANELS), place)
        for split, (steps, values) in panels[name].items():
            marker = "o" if split == "test" else None
            axes.plot(
                steps, values, COLORS[split], label=f"{split}, last {values[-1]:.3g}", marker=marker, markersize=4
            )
        axes.set(title=title, xlabel="step")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    # text stays text, and the same run gives the same bytes
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "vitzoo", "font.family": "sans-serif"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
