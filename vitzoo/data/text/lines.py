"""A user's text: a file or standard input as lines, and what no file can hold.

Half of a surrogate pair is what JSON's escapes and bytes on a command line can make.
"""

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


SHOWN = 40  # characters of a text in a message
HALF = "holds what is no character: half of a surrogate pair, or a byte that isn't UTF-8"
"""What is wrong with such a text."""


def is_whole(text: str) -> bool:
    """Whether every character of a text is one, so that it can be written as UTF-8 and tokenized."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_whole(field: str, *texts: str) -> None:
    """Refuses, as `field`, a text that isn't whole."""
    for text in texts:
        if not is_whole(text):
            raise UserError(field, ascii(text[:SHOWN]), HALF)
