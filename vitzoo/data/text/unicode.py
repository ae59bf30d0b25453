"""Text that no file can hold: half of a surrogate pair, as JSON's escapes and bytes on a command line can make."""

HALF = "holds half of a surrogate pair, which is no character"
"""What is wrong with such a text."""


def is_whole(text: str) -> bool:
    """Whether every character of a text is one, so that it can be written as UTF-8 and tokenized."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
