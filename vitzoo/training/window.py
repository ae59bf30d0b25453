"""The training metrics since the last line of the log: fetched late, so that the host runs ahead of the device."""

import collections
import math
from typing import Any

import jax

from vitzoo.checkpoints.metadata import SavedWindow
from vitzoo.errors import RunError

_MOST_IN_A_ROW = 100  # skipped steps after which a run that skips them learns nothing more
_FEW = 10  # steps from the first of a run on in which nothing counts, and which say nothing of the others
_IN_FLIGHT = 2  # steps the host may be ahead by: the device never waits, and batches don't pile up in its memory
_LAST = (
    "learning_rate",
    "weight_decay",
    "skipped",
)  # shown as of the last step; all others are means over the steps since


class Window:
    """Means of the steps' metrics. What is not yet logged travels in the checkpoint (`saved`), so that the line of a
    resumed run is the one that an uninterrupted run writes.

    Args:
        stop: end the run at a step that is not finite, before anything of it is saved.
        saved: from the checkpoint that the run resumes from.
    """

    def __init__(self, stop: bool, saved: SavedWindow | None = None):
        kept: SavedWindow = saved or {"sums": {}, "last": {}, "skipped_in_a_row": 0, "uncounted": 0}
        self._stop = stop
        self._sums: dict[str, tuple[float, float]] = {name: (s, n) for name, (s, n) in kept["sums"].items()}
        self._last: dict[str, float] = kept["last"]
        self._skipped_in_a_row: int = kept["skipped_in_a_row"]
        # steps from the first of the run on in which nothing counted; None once something did
        self._uncounted: int | None = kept.get("uncounted")
        self._waiting: collections.deque[tuple[int, dict[str, jax.Array]]] = collections.deque()

    def add(self, step: int, metrics: dict[str, jax.Array]) -> None:
        """Take the metrics of the batch that led to `step`, without waiting for them.

        Raises:
            RunError: an earlier step was not finite and the run is to stop at one, or too many in a row were skipped.
        """
        self._waiting.append((step, metrics))
        if len(self._waiting) > _IN_FLIGHT:
            self._fetch(*self._waiting.popleft())

    def busy(self) -> bool:
        """Whether the device still works on a step."""
        if not self._waiting:
            return False
        loss: Any = self._waiting[-1][1]["loss"]
        return not loss.is_ready()

    def settle(self) -> None:
        """Wait for every step so far.

        Raises:
            RunError: one was not finite and the run is to stop at one, or too many in a row were skipped.
        """
        while self._waiting:
            self._fetch(*self._waiting.popleft())

    def line(self, last: bool = False) -> dict[str, Any]:
        """The means since the last call; a metric that was never finite is NaN.

        Args:
            last: whether the run ends here.

        Raises:
            RunError: as for `settle`; or nothing counted in any step of the run so far. In a few of them that is no
                fault: a small batch may have no token that is masked.
        """
        self.settle()
        if self._uncounted and (last or self._uncounted >= _FEW):
            raise RunError(
                f"step {self._uncounted}: nothing was learned, for nothing counts in any batch so far: the objective's "
                "`counts` are 0, as of examples whose weights are all 0"
            )
        means = {name: total / count if count else math.nan for name, (total, count) in self._sums.items()}
        line = {**dict(sorted(means.items(), key=_place)), **self._last}
        self._sums, self._last = {}, {}
        return line

    def saved(self) -> dict:
        """Plain values for the checkpoint."""
        self.settle()
        sums = {name: list(pair) for name, pair in self._sums.items()}
        saved = {"sums": sums, "last": self._last, "skipped_in_a_row": self._skipped_in_a_row}
        return saved if self._uncounted is None else saved | {"uncounted": self._uncounted}

    def _fetch(self, step: int, metrics: dict[str, jax.Array]) -> None:
        values = {name: value.item() for name, value in jax.device_get(metrics).items()}
        finite = math.isfinite(values["loss"]) and math.isfinite(values["grad_norm"])
        if self._stop and not finite:
            raise RunError(
                f"step {step}: loss {values['loss']:.4g}, gradient norm {values['grad_norm']:.4g}, non_finite = stop: "
                "nothing of this step was saved (a lower learning rate, a warm-up or grad_clip may help)"
            )
        self._skipped_in_a_row = 0 if finite else self._skipped_in_a_row + 1
        if self._skipped_in_a_row == _MOST_IN_A_ROW:
            raise RunError(
                f"step {step}: {_MOST_IN_A_ROW} steps in a row were not finite: nothing is learned any more "
                "(a lower learning rate, a warm-up or grad_clip may help)"
            )
        counted = values.pop("counted", True)
        if counted:
            self._uncounted = None
        else:
            values["loss"] = math.nan
            self._uncounted = None if self._uncounted is None else self._uncounted + 1
        for name, value in values.items():
            if name in _LAST:
                self._last[name] = value
            else:
                total, count = self._sums.get(name, (0.0, 0))
                # what is NaN in a step that is applied had nothing to count there
                self._sums[name] = (total + value, count + 1) if finite and value == value else (total, count)


def _place(item: tuple[str, float]) -> tuple[bool, bool, str]:
    """The order of a line: the loss, the objective's metrics, the gradients' norm."""
    name = item[0]
    return name != "loss", name == "grad_norm", name
