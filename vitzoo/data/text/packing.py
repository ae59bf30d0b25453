"""Which texts share a row: a plan made once, an integer array that depends on lengths, row size and seed alone."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitzoo.data.folders import cache_folder
from vitzoo.data.text.token_array import kept_folder
from vitzoo.data.text.tokenizers.base import Ids, TextTokenizer
from vitzoo.errors import UserError

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


@dataclasses.dataclass(frozen=True)
class Layout:
    """[CLS] text [SEP], or [CLS] first [SEP] second [SEP]. A tokenizer without these marks gives the text and its end
    token instead, which also stands between the parts.

    What is too long is cut at its end; of a pair, tokens are taken from the end of whichever part is longer, the second
    where equal.

    Args:
        tokenizer: that says what the marks are.
        length: most tokens, marks included.
    """

    tokenizer: TextTokenizer
    length: int

    def check(self, parts: int) -> None:
        """Refuses a length that has no room for a token of each part."""
        if self.room(parts) < parts:
            raise UserError("inputs.tokens.length", self.length, "leaves no room beside [CLS] and [SEP]")

    @property
    def opening(self) -> Ids:
        """What stands before the text, int32 [0 or 1]."""
        return _mark(self.tokenizer.classify_id)

    @property
    def closing(self) -> Ids:
        """What stands after each part, int32 [0 or 1]."""
        tokenizer = self.tokenizer
        return _mark(tokenizer.end_id if tokenizer.separate_id is None else tokenizer.separate_id)

    def room(self, parts: int) -> int:
        """Tokens that so many parts have together."""
        return self.length - len(self.opening) - parts * len(self.closing)

    def __call__(self, parts: Sequence[Ids]) -> tuple[Ids, np.ndarray]:
        """Ids with their marks, int32 [n], and the part that each belongs to, int32 [n].

        Args:
            parts: the ids of the text, or of the first and the second.
        """
        kept = longest_first([len(part) for part in parts], self.room(len(parts)))
        pieces = [np.concatenate([part[:k], self.closing]) for part, k in zip(parts, kept, strict=True)]
        pieces[0] = np.concatenate([self.opening, pieces[0]])
        types = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(piece) for piece in pieces])
        return np.concatenate(pieces).astype(np.int32), types


def longest_first(lengths: Sequence[int], room: int) -> list[int]:
    """How many tokens of a text, or of each part of a pair, are kept."""
    if sum(lengths) <= room or len(lengths) == 1:
        return [min(length, room) for length in lengths]
    first, second = lengths
    # the shorter one is only cut below half of the room
    if first <= second:
        kept = min(first, room - room // 2)
        return [kept, room - kept]
    kept = min(second, room // 2)
    return [room - kept, kept]


def _mark(id: int | None) -> Ids:
    return np.array([] if id is None else [id], np.int32)
