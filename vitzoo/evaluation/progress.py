"""How far a pass over a dataset is: a bar on a terminal, a line every few seconds elsewhere."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from vitzoo import streams

SECONDS = 10.0  # between two lines where there is no terminal


@contextlib.contextmanager
def counting(what: str, total: int, out: TextIO) -> Iterator[Callable[[int], None]]:
    """While open, gives a function to be called with the number of examples done so far."""
    if out.isatty():
        with bar(what, total, out) as seen:
            yield seen
        return
    start = last = time.monotonic()

    def seen_plainly(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS and done:
            last, rate = now, done / (now - start)
            left = (total - done) / rate
            print(f"{what}: {done:,} of {total:,}, {rate:,.0f} examples/s, {left:,.0f} s left", file=out, flush=True)

    yield seen_plainly


@contextlib.contextmanager
def bar(what: str, total: int, out: TextIO) -> Iterator[Callable[[int], None]]:
    """The terminal's bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=streams.console(out), transient=True) as progress:
        task = progress.add_task(streams.shown(what), total=total)
        yield lambda done: progress.update(task, completed=done)
