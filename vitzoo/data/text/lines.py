"""A user's file of text, or standard input, as lines."""

import re
import sys
from pathlib import Path
from typing import BinaryIO

from vitzoo.errors import UserError
from vitzoo.paths import readable_path

STANDARD_INPUT = "-"
_END = re.compile(r"\r?\n")


def read_lines(flag: str, file: str | Path) -> list[str]:
    """The lines of a UTF-8 file, or of standard input for `-`; without the mark that some editors put in front.

    A line ends with a line feed, or carriage return and line feed, as in training. Other characters that `splitlines`
    takes for ends (form feed, U+0085, U+2028) belong to the text.

    Args:
        flag: what names the file, for the message.
        file: the file.

    Raises:
        UserError: it can't be read, or isn't UTF-8.
    """
    named = None if str(file) == STANDARD_INPUT else readable_path(flag, file, pipe=True)
    try:
        content = _standard_input(flag, file).read() if named is None else named.read_bytes()
        return _END.split(content.decode("utf-8-sig"))
    except (OSError, ValueError) as error:  # ValueError: not UTF-8
        raise UserError(flag, file, f"can't be read: {getattr(error, 'strerror', None) or error}") from None


def _standard_input(flag: str, file: str | Path) -> BinaryIO:
    found = getattr(sys.stdin, "buffer", None)  # None where it was closed as Python began (`<&-`)
    if found is None or found.closed:
        raise UserError(flag, file, "can't be read: standard input is closed; give it texts, or name a file")
    return found
