"""The `tokenizers` library as something that only raises: it is written in Rust, and what it doesn't expect in a file
makes it panic, which prints a trace of its own and raises what isn't an `Exception`."""

import contextlib
import os
import threading
from collections.abc import Iterator

PANIC = "PanicException"
ERRORS = 2  # the file descriptor that Rust writes to, behind Python's back
_quiet = threading.Lock()


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
    """As `as_errors`, and what the library prints of a panic isn't shown: for making a tokenizer out of a file, which
    takes a moment.
    """
    with _quiet, as_errors():
        try:
            before = os.dup(ERRORS)
        except OSError:  # there are no errors to be seen
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, ERRORS)
        os.close(nowhere)
        try:
            yield
        finally:
            os.dup2(before, ERRORS)
            os.close(before)
