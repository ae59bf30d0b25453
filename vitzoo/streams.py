"""Standard output and error: control characters are shown, not obeyed; a closed one is none; and the progress of work.

Progress is a bar on a terminal, and a line every few seconds elsewhere.
"""

import contextlib
import io
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO, cast

from vitzoo.errors import RunError

_HIDDEN = ("Cc", "Cf", "Zl", "Zp")  # Unicode's categories of what has no shape and is obeyed
_KEPT = "\t\n\u200c\u200d"  # the joiners belong to words of many scripts, and to emoji
_BAR = re.compile(r"(?:[\r\n]|\x1b\[A)*")
"""What a library's progress bar begins its line with, or goes up by."""


def shown(text: str) -> str:
    """A text that moves no terminal's cursor, changes no colour or direction and hides nothing: `\\x1b` for an escape,
    `\\u202e` for what turns a text round.
    """
    if text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode() if unicodedata.category(one) in _HIDDEN and one not in _KEPT else one
        for one in text
    )


def on_one_line(text: str) -> str:
    """A name or cell within a line that is printed: an end of a line in it is shown as `\\n`."""
    return text.replace("\n", "\\n")


class Shown:
    """A stream to which texts are written as `shown` has them; all else is the stream's own.

    Args:
        stream: where they go.
        bars: it is standard error: libraries draw progress bars on it, which may move the cursor before they write.
    """

    def __init__(self, stream: TextIO, *, bars: bool = False):
        self.stream, self._bars = stream, bars

    def write(self, text: str) -> int:
        """Write a text; gives its length.

        Raises:
            BrokenPipeError: the reader is gone.
            RunError: standard output can't be written to; nothing more is. Where standard error can't, that can be said
                nowhere.
        """
        moves = found[0] if self._bars and (found := _BAR.match(text)) else ""
        with self._writing():
            self.stream.write(moves + shown(text[len(moves) :]))
        return len(text)

    def flush(self) -> None:
        """Write what waits to be; raises as `write`."""
        with self._writing():
            self.stream.flush()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.lead_nowhere()
            if not self._bars:
                raise RunError(f"standard output can't be written to: {error.strerror or error}") from error

    def lead_nowhere(self) -> None:
        """From here on all that is written is dropped, what waits to be included."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def for_people() -> Iterator[None]:
    """Within the block standard output and error show control characters, and those that can't be encoded by their
    number; one that is closed (`>&-`) leads nowhere.
    """
    before = sys.stdout, sys.stderr
    _fill_descriptors()
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.closed:
        sys.stdout.reconfigure(errors="backslashreplace")
    with open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as nowhere:
        sys.stdout = over(nowhere if _is_closed(sys.stdout) else sys.stdout)
        sys.stderr = over(nowhere if _is_closed(sys.stderr) else sys.stderr, bars=True)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def over(stream: TextIO, *, bars: bool = False) -> TextIO:
    """A stream as `Shown`."""
    return stream if isinstance(stream, Shown) else cast(TextIO, Shown(stream, bars=bars))


def console(stream: TextIO, width: int | None = None) -> Any:
    """Rich's console on a stream: texts are taken as they are, without markup, and only it may move the cursor.

    Args:
        stream: a terminal, or not.
        width: where it is no terminal.
    """
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(shown(text), **how)

    drawn = stream.stream if isinstance(stream, Shown) else stream
    return Plain(file=drawn, width=None if drawn.isatty() else width, highlight=False, markup=False, emoji=False)


def _is_closed(stream: TextIO | None) -> bool:
    return stream is None or stream.closed


def _fill_descriptors() -> None:
    """Closed descriptors of standard streams lead nowhere: else the next file that is opened would get one of them, and
    whatever a library prints.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)


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
            print(
                f"{what}: {done:,} of {total:,}, {rate:,.{0 if rate >= 10 else 1}f} examples/s, {left:,.0f} s left",
                file=out,
                flush=True,
            )

    yield seen_plainly


@contextlib.contextmanager
def bar(what: str, total: int, out: TextIO) -> Iterator[Callable[[int], None]]:
    """The terminal's bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(out), transient=True) as progress:
        task = progress.add_task(shown(what), total=total)
        yield lambda done: progress.update(task, completed=done)
