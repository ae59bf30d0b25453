"""Text that no file can hold: half of a surrogate pair, as JSON's escapes and bytes on a command line can make."""

from vitzoo.errors import UserError

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
