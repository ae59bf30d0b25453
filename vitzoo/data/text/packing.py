"""Which texts share a row: a plan made once, an integer array that depends on lengths, row size and seed alone."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitzoo.data.folders import cache_folder
from vitzoo.data.text.cache import kept_folder

BLOCK = 4096  # texts among which rows are filled
KEPT_FROM = 2**17  # plans of more texts are kept in the cache and mapped
FORMAT = 1


@dataclasses.dataclass
class Plan:
    """Row r holds the items `items[starts[r] : starts[r + 1]]`, in order; int64 both."""

    items: np.ndarray
    starts: np.ndarray
    folder: pathlib.Path | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, index: int) -> np.ndarray:
        return self.items[self.starts[index] : self.starts[index + 1]]

    def __getstate__(self) -> dict[str, Any]:  # a worker maps a large plan, rather than being sent it
        return {"folder": self.folder} if self.folder else dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = vars(_mapped(state["folder"])) if state["folder"] else state


def alone(count: int) -> Plan:
    """Every item has a row of its own, in order."""
    return Plan(np.arange(count), np.arange(count + 1))


def pack(lengths: np.ndarray, capacities: Sequence[int], seed: int) -> Plan:
    """Items into rows, first fit within blocks of a shuffled order.

    The items are shuffled by `seed`; within each block of 4,096 an item goes to the first row that has room for it.

    Args:
        lengths: of each item, int [items, sides]: one side, or source and target.
        capacities: of a row, one for each side; every item fits an empty row.
        seed: of the shuffle.
    """
    lengths = np.asarray(lengths, np.int64).reshape(len(lengths), -1)
    if len(lengths) < KEPT_FROM:
        return _plan(lengths, capacities, seed)
    key = hashlib.sha256(lengths.tobytes() + repr((FORMAT, BLOCK, tuple(capacities), seed)).encode()).hexdigest()[:32]

    def make(folder: pathlib.Path) -> None:
        plan = _plan(lengths, capacities, seed)
        np.save(folder / "items.npy", plan.items)
        np.save(folder / "starts.npy", plan.starts)

    return _mapped(kept_folder(cache_folder() / "plans" / key, make))


def _mapped(folder: pathlib.Path) -> Plan:
    return Plan(np.load(folder / "items.npy", mmap_mode="r"), np.load(folder / "starts.npy", mmap_mode="r"), folder)


def _plan(lengths: np.ndarray, capacities: Sequence[int], seed: int) -> Plan:
    order = np.random.default_rng(seed % 2**64).permutation(len(lengths))
    rows: list[list[int]] = []
    for start in range(0, len(order), BLOCK):
        rows += _first_fit(order[start : start + BLOCK], lengths, np.asarray(capacities, np.int64))
    items = np.array([item for row in rows for item in row], np.int64)
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Plan(items, starts)


def _first_fit(items: np.ndarray, lengths: np.ndarray, capacities: np.ndarray) -> list[list[int]]:
    room = np.repeat(capacities[:, None], len(items), 1)  # [sides, rows]
    rows: list[list[int]] = []
    for item in items.tolist():
        # a row not yet opened always has room, so that argmax finds one
        fits = room[0, : len(rows) + 1] >= lengths[item, 0]
        for side in range(1, len(room)):
            fits &= room[side, : len(rows) + 1] >= lengths[item, side]
        row = int(fits.argmax())
        if row == len(rows):
            rows.append([])
        rows[row].append(item)
        room[:, row] -= lengths[item]
    return rows
