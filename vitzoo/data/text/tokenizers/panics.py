"""The `tokenizers` library as something that only raises: it is written in Rust, and what it doesn't expect in a file
makes it panic, which prints a trace of its own and raises what isn't an `Exception`."""

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import BinaryIO

PANIC = "PanicException"
ERRORS = 2  # the file descriptor that Rust writes to, behind Python's back
_TRACE = re.compile(rb"\n?(?m:^)thread '[^\n]*' (\([0-9]+\) )?panicked at .*", re.DOTALL)


@contextlib.contextmanager
def as_errors() -> Iterator[None]:
    """A panic within becomes a ValueError in one line."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"the tokenizers library stopped at it: {said}") from None


@contextlib.contextmanager
def quiet_errors() -> Iterator[None]:
    """As `as_errors`, and what the library prints of a panic isn't shown. What others print to standard error meanwhile
    is shown when the block ends, so that it should take a moment: the making of a tokenizer, a batch of texts.
    """
    with as_errors():
        _held.enter()
        try:
            yield
        finally:
            _held.leave()


class _Held:
    """Standard error while any thread is in a block of `quiet_errors`: the first holds it back, the last lets it go."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before: int | None = None
        self.kept: BinaryIO | None = None

    def enter(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside > 1:
                return
            try:
                self.before = os.dup(ERRORS)
            except OSError:  # there are no errors to be seen
                return
            self.kept = _file()
            os.dup2(self.kept.fileno(), ERRORS)

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.let_go()

    def let_go(self) -> None:
        """Standard error is what it was, and gets what was printed meanwhile, but for a panic's trace."""
        if self.before is None or self.kept is None:
            return
        os.dup2(self.before, ERRORS)
        os.close(self.before)
        self.kept.seek(0)
        said = _TRACE.sub(b"", self.kept.read())
        self.kept.close()
        self.before = self.kept = None
        with contextlib.suppress(OSError):
            while said:
                said = said[os.write(ERRORS, said) :]

    def in_child(self) -> None:
        """A forked process has one thread, which is in no block; what was held back is its parent's."""
        if self.before is not None:
            os.dup2(self.before, ERRORS)
        self.__init__()  # type: ignore[misc]


def _file() -> BinaryIO:
    """One that is only this process's, in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("vitzoo"), "r+b", buffering=0)  # type: ignore[return-value]
    return tempfile.TemporaryFile(buffering=0)  # type: ignore[return-value]


_held = _Held()
os.register_at_fork(after_in_child=_held.in_child)
