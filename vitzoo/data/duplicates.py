"""Examples that are there more than once: which they are, and splits that keep them together."""

import hashlib
import pathlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from vitzoo.strict_json import JSON


class WithIds(Protocol):
    """A source; one that knows them has `contents`, a number for each example, the same for equal ones."""

    ids: np.ndarray


NAMED = 3  # pairs that a note lists


def equal_files(paths: Sequence[str], sizes: Sequence[int], checksums: Sequence[int]) -> np.ndarray:
    """A number for each file, int64 [files]: the same for files whose bytes are.

    Sizes and checksums tell nearly all files apart; only those that agree in both are read.

    Args:
        paths: of the files.
        sizes: in bytes.
        checksums: 32 bits of their contents.
    """
    keys = np.array(sizes, np.uint64) << np.uint64(32) | np.array(checksums, np.uint64)
    alike = numbered(keys)
    digests: dict[str, bytes] = {}
    contents: list[tuple[int, bytes]] = [(number, b"") for number in alike.tolist()]
    for rows in repeated(alike):
        for row in rows.tolist():
            path = paths[row]
            if path not in digests:
                digests[path] = _digest(path)
            contents[row] = (contents[row][0], digests[path])
    numbers: dict[tuple[int, bytes], int] = {}
    return np.array([numbers.setdefault(content, len(numbers)) for content in contents], np.int64)


def content_key(content: bytes) -> int:
    """64 bits of a content, which tell apart what is known of no file."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def checksum(content: bytes) -> int:
    """64 bits of a content: two cyclic sums, of it and of its length with its ends swapped."""
    half = len(content) // 2
    return zlib.crc32(content) << 32 | zlib.crc32(content[half:] + content[:half], len(content) & 0xFFFFFFFF)


def copies(measured: WithIds, trained: WithIds) -> int:
    """How many examples of one source are equal to some of another and not the same ones; 0 where it isn't known.

    Args:
        measured, trained: sources of one dataset, of which `contents` tells equal examples, if they have it.
    """
    ours, theirs = (getattr(source, "contents", None) for source in (measured, trained))
    if ours is None or theirs is None:
        return 0
    first = getattr(measured, "first", 0)  # those before are learned from
    return int((np.isin(ours, theirs) & ~np.isin(measured.ids, trained.ids))[first:].sum())


def numbered(keys: np.ndarray) -> np.ndarray:
    """A number for each key, int64 [keys]: the same for equal keys."""
    return np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)


def repeated(units: np.ndarray) -> list[np.ndarray]:
    """The rows of each number that stands more than once, in the order of their first."""
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.diff(units[order], prepend=-1))
    stops = np.append(starts[1:], len(units))
    several = np.flatnonzero(stops - starts > 1).tolist() if len(units) else list[int]()
    groups = [order[starts[group] : stops[group]] for group in several]
    return sorted(groups, key=lambda rows: int(rows[0]))


def hold_out(ranked: Sequence[int] | np.ndarray, units: np.ndarray, wanted: int) -> np.ndarray:
    """The rows to hold out: the first `wanted` of a ranking, but whole units only. A unit too large is passed over;
    where none is small enough it is the smallest; and one at least isn't held out.

    Args:
        ranked: rows, those to be held out first in front.
        units: the unit of every row, int64 [rows of the data]; equal examples are one.
        wanted: how many rows.
    """
    rows = np.array(ranked, np.int64)
    found, first, members, sizes = np.unique(units[rows], return_index=True, return_inverse=True, return_counts=True)
    if len(found) < 2 or wanted < 1:
        return np.zeros(0, np.int64)
    taken, held = np.zeros(len(found), bool), 0
    for unit in np.argsort(first).tolist():
        if held + sizes[unit] <= wanted and held + sizes[unit] < len(rows):
            taken[unit], held = True, held + int(sizes[unit])
        if held == wanted:
            break
    if not held:
        taken[min(range(len(found)), key=lambda unit: (sizes[unit], first[unit]))] = True
    return np.sort(rows[taken[members.reshape(-1)]])


def differing(units: np.ndarray, labels: Sequence[JSON | frozenset[str]]) -> list[tuple[int, int]]:
    """Of each unit whose rows don't all have one label: its first row, and the first that has another."""
    pairs = []
    for rows in repeated(units):
        first = labels[int(rows[0])]
        other = next((int(row) for row in rows if labels[int(row)] != first), None)
        if other is not None:
            pairs.append((int(rows[0]), other))
    return pairs


def equal_notes(
    units: np.ndarray,
    conflicts: Sequence[tuple[int, int]],
    name: Callable[[int], str],
    label: Callable[[int], str],
    *,
    thing: str,
) -> tuple[str, ...]:
    """Notes of the examples that are there more than once, and of those whose labels differ.

    Args:
        units: as in `hold_out`.
        conflicts: from `differing`.
        name: what a row is called.
        label: what it is labelled.
        thing: what a row is, `file`.
    """
    again: list[tuple[int, int]] = []
    twice: list[str] = []
    for rows in map(np.ndarray.tolist, repeated(units)):
        names = {name(rows[0])}
        for row in rows[1:]:
            if (own := name(row)) in names:
                twice.append(own)
            else:
                again.append((rows[0], row))
            names.add(own)
    notes = []
    if twice:
        what = f"of {len(units):,} {thing}s {'is' if len(twice) == 1 else 'are'} listed again"
        shown = list(dict.fromkeys(twice))
        notes.append(f"{len(twice):,} {what} ({', '.join(shown[:NAMED])}{', ...' if len(shown) > NAMED else ''})")
    if again:
        what = f"of {len(units):,} {thing}s {'is' if len(again) == 1 else 'are'} the same as others"
        notes.append(f"{len(again):,} {what} ({_pairs(again, name)})")
    if conflicts:
        what = f"{len(conflicts):,} {thing}{' is' if len(conflicts) == 1 else 's are'} there under different labels"
        listed = _pairs(conflicts, lambda row: f"{name(row)} as {label(row) or 'nothing'}")
        notes.append(f"warning: {what} ({listed})")
    return tuple(notes)


def torn_note(
    units: np.ndarray, splits: Mapping[str, np.ndarray], name: Callable[[int], str], thing: str
) -> tuple[str, ...]:
    """A note of the examples that the data have in two of their own splits."""
    place = np.full(len(units), -1)
    for number, rows in enumerate(splits.values()):
        place[rows] = number
    pairs = [(int(rows[0]), int(row)) for rows in repeated(units) for row in rows[1:] if place[row] != place[rows[0]]]
    if not pairs:
        return ()
    what = f"{len(pairs):,} {thing}{'' if len(pairs) == 1 else 's'} of a split {'is' if len(pairs) == 1 else 'are'}"
    names = list(splits)
    return (f"warning: {what} in another one too ({_pairs(pairs, lambda row: f'{name(row)} in {names[place[row]]}')})",)


def _pairs(pairs: Sequence[tuple[int, int]], show: Callable[[int], str]) -> str:
    shown = "; ".join(f"{show(one)} = {show(other)}" for one, other in pairs[:NAMED])
    return shown + ("; ..." if len(pairs) > NAMED else "")


def _digest(path: str) -> bytes:
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()
    except OSError:  # it is gone since, and equals none; whoever reads it will say so
        return path.encode("utf-8", "surrogateescape")
