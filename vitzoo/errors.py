"""The two ways in which a command ends badly, each one line for the user."""

import errno

LONGEST_SHOWN = 1000
"""Characters of a value in a message."""


def as_text(value: object) -> str:
    """A value for a message, whatever it is: a number of 5,000 digits, an object that has no text, a whole page."""
    try:
        text = str(value)
    except Exception:  # an integer of too many digits, or an object whose own method fails
        return f"a value of the type {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text):,} characters)"


def install_extra(name: str) -> str:
    """How to get what one of vitzoo's optional dependencies brings."""
    return f"install the extra `{name}`: pip install -e '.[{name}]'"


class UserError(Exception):
    """What was asked can't be done: exit code 2, before any work.

    Args:
        field: the setting, flag, file or leaf at fault, as the user writes it (`data.batch_size`).
        value: what it holds; `None` where there is nothing to show.
        message: what is wrong and what would be right.
    """

    exit_code = 2

    def __init__(self, field: str, value: object, message: str):
        self.field, self.value, self.message = field, value, message
        text = as_text(value)
        shown = "" if value is None else f" = {text if text.strip() else repr(text)}"
        super().__init__(f"{field}{shown}: {message}" if message else f"{field}{shown}")

    def __reduce__(self):  # worker processes send it back through pickle
        return type(self), (self.field, self.value, self.message)

    def under(self, prefix: str) -> "UserError":
        """The same refusal with its field named from one level further out."""
        return UserError(f"{prefix}.{self.field}", self.value, self.message)


class RunError(Exception):
    """A run that had begun can't go on (non-finite loss, disk full, data lost): exit code 1."""

    exit_code = 1


def out_of_memory(error: BaseException) -> RunError | None:
    """The failure of a device that has no memory left; None for any other exception."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return None
    return RunError("out of memory: lower data.batch_size, or raise accumulate (same result), or set remat=full")


def out_of_disk(error: BaseException) -> RunError | None:
    """The failure of a file system that takes nothing more; None for any other exception."""
    if not isinstance(error, OSError):
        return None
    if str(error.strerror).startswith("No usable temporary directory"):  # `tempfile` has tried several
        return RunError("no temporary folder can be written; $TMPDIR names another")
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return None
    return RunError(f"{error.filename or 'a file'} can't be written: {error.strerror}")
