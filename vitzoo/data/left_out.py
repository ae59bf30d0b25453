"""Examples that can't be read and are left out: each is named once a run, in one line, and counted at its end."""

import contextlib
import sys
from collections.abc import Iterator

_named: dict[str, None] = {}
_collecting: list[bool] = []


def name(what: str) -> None:
    """Names a file or record, unless that has been done in this run; on stderr, or for `collected`. What of it can't be
    written as UTF-8 is escaped.
    """
    what = what.encode("utf-8", "backslashreplace").decode()
    if what not in _named and not _collecting:
        print(f"warning: left out, can't be read: {what}", file=sys.stderr, flush=True)
    _named[what] = None


def named() -> list[str]:
    """What was named in this run."""
    return list(_named)


def begin() -> None:
    """A new run begins: whatever it leaves out is named again."""
    _named.clear()


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """Within the block nothing is printed; afterwards the list holds what was left out in it."""
    begin()
    found: list[str] = []
    _collecting.append(True)
    try:
        yield found
    finally:
        _collecting.pop()
        found += named()
