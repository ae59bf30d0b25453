"""Progress of long work on data: a bar on a terminal, a line every ten seconds elsewhere, both on stderr."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from vitzoo import streams

T = TypeVar("T")
LINE_SECONDS = 10.0


def progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The items, while telling how far they are."""
    if sys.stderr.isatty():
        yield from _bar(items, total, what)
        return
    start = shown = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - shown >= LINE_SECONDS:
            shown = now
            left = (now - start) / done * (total - done)
            print(f"{what}: {done:,} of {total:,}, {done / (now - start):,.0f}/s, {left:,.0f} s left", file=sys.stderr)


def _bar(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=streams.console(sys.stderr), transient=True) as bar:
        yield from bar.track(items, total, description=streams.shown(what))
