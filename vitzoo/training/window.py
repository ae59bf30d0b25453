"""The training metrics since the last line of the log: fetched late, so that the host runs ahead of the device."""

import collections
import math
from typing import Any

import jax

from vitzoo.errors import RunError

_MOST_IN_A_ROW = 100  # skipped steps after which a run that skips them learns nothing more
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

    def __init__(self, stop: bool, saved: dict | None = None):
        saved = saved or {"sums": {}, "last": {}, "skipped_in_a_row": 0}
        self._stop = stop
        self._sums: dict[str, tuple[float, int]] = {name: (s, n) for name, (s, n) in saved["sums"].items()}
        self._last: dict[str, float] = saved["last"]
        self._skipped_in_a_row: int = saved["skipped_in_a_row"]
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

    def line(self) -> dict[str, Any]:
        """The means since the last call; a metric that was never finite is NaN."""
        self.settle()
        means = {name: total / count if count else math.nan for name, (total, count) in self._sums.items()}
        line = {**dict(sorted(means.items(), key=_place)), **self._last}
        self._sums, self._last = {}, {}
        return line

    def saved(self) -> dict:
        """Plain values for the checkpoint."""
        self.settle()
        sums = {name: list(pair) for name, pair in self._sums.items()}
        return {"sums": sums, "last": self._last, "skipped_in_a_row": self._skipped_in_a_row}

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
        if not values.pop("counted", True):
            values["loss"] = math.nan
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
