"""Paths that a user names: refused in one line where the system can have no such path, or nothing can be read there."""

import errno
import os
import re
import stat
from pathlib import Path

from vitzoo.errors import UserError

ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")  # of a URI, RFC 3986
HUB = re.compile("hf://|https?://(huggingface[.]co|hf[.]co)/")  # of models
LONGEST = 255  # bytes of a name, on every common file system
PATTERN = re.compile(r"[*?[\\]")  # Orbax finds what it has written by a glob pattern; TensorStore reads \ as /
UNREADABLE = re.compile(r"\\|^(gs|s3|az|hf):$")  # in a name, with which TensorStore opens another path, or none
PIPE = "a pipe"
KINDS = {stat.S_ISFIFO: PIPE, stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}
"""What is neither a file nor a folder, in words."""


def named_path(flag: str, path: str | os.PathLike[str]) -> Path:
    """A path that a user gave, `~` expanded, whether or not something is there.

    Args:
        flag: the setting that names it, for the message.
        path: what was given.

    Raises:
        UserError: it is empty, an address (`gs://...`), no path can be so (NUL, too long, no such user's home), a
            folder above it can't be entered, or it is a link to nothing.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UserError(flag, path, f"is of the type {type(path).__name__}; a path is text")
    if not text.strip():
        raise UserError(flag, "''", "names nothing; give a path")
    if "\0" in text:
        raise UserError(flag, text.replace("\0", "\\0"), "holds a NUL character, which no path has")
    if scheme := ADDRESS.match(text):
        raise UserError(flag, text, f"is an address, not a path of this machine; {_instead(scheme[0], text)}")
    file = expanded(text)
    if file.parts[:1] and file.parts[0].startswith("~"):
        if text.startswith("~") and not os.path.lexists(text):
            user = file.parts[0][1:]
            raise UserError(flag, text, f"there is no user {user}" if user else "you have no home folder (set $HOME)")
        file = file.absolute()  # so that nobody takes it for a user's home again
    try:
        if any(len(os.fsencode(part)) > LONGEST for part in file.parts):
            raise UserError(flag, text, f"a name in it is longer than {LONGEST} bytes")
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        _refuse_broken_link(flag, text, file)
    except OSError as error:
        raise UserError(flag, text, f"can't be looked at: {error.strerror}") from None
    except ValueError:  # half of a surrogate pair
        raise UserError(flag, ascii(text), "holds characters that no path has") from None
    return file


def expanded(path: str | os.PathLike[str]) -> Path:
    """A path with `~` or `~user` for its home folder, where there is one; else as it is: a name may begin with `~`."""
    if not os.fsdecode(path).startswith("~"):  # `./~x` is a name, and Path makes `~x` of it
        return Path(path)
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def current_folder() -> str:
    """Where vitzoo is run; raises UserError where it is gone, for every relative path and many a library need it."""
    try:
        return os.getcwd()
    except OSError as error:
        message = "was deleted" if isinstance(error, FileNotFoundError) else f"can't be entered: {error.strerror}"
        raise UserError("the current folder", None, f"{message}; change to another (cd) and try again") from None


def home() -> Path | None:
    """The user's home folder; None where there is none, as for a container's user who isn't in its list of users."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def folder_to_fill(flag: str, path: str | os.PathLike[str]) -> Path:
    """A folder that a user gave to be written to, whether or not it is there.

    Raises:
        UserError: as `named_path`, or it isn't UTF-8, which the libraries that write checkpoints need.
    """
    folder = named_path(flag, path)
    try:
        str(folder).encode()
    except UnicodeEncodeError:  # how Python reads a byte that it can't decode
        raise UserError(flag, ascii(str(folder)), "is not UTF-8, without which no checkpoint is written") from None
    return folder


def folder_of_checkpoints(flag: str, path: str | os.PathLike[str]) -> Path:
    """A folder that a user gave for checkpoints to be written below, whether or not it is there.

    Raises:
        UserError: as `folder_to_fill`, or the libraries that write checkpoints wouldn't find again what they wrote
            there.
    """
    folder = folder_to_fill(flag, path)
    for name in folder.absolute().parts:
        if found := PATTERN.search(name) or UNREADABLE.search(name):
            message = f"no checkpoint can be written below a folder named {name}, for the {found[0]} in it"
            raise UserError(flag, str(path), f"{message}; take a path without any of * ? [ \\")
    return folder


def check_checkpoint_can_be_read(flag: str, path: str | os.PathLike[str]) -> None:
    """Refuses a checkpoint at a path that the libraries which read checkpoints take for another."""
    for name in named_path(flag, path).absolute().parts:
        if found := UNREADABLE.search(name):
            message = f"no checkpoint can be read below a folder named {name}, for the {found[0]} in it; rename it"
            raise UserError(flag, str(path), message)


def readable_path(flag: str, path: str | os.PathLike[str], *, pipe: bool = False) -> Path:
    """A file or a folder that a user gave and that can be read.

    Args:
        flag, path: as for `named_path`.
        pipe: what a pipe gives will do too.

    Raises:
        UserError: as `named_path`; there is nothing, or a pipe, a socket or a device; or it may not be read.
    """
    file = named_path(flag, path)
    if not file.exists():
        raise UserError(flag, str(path), "does not exist")
    what = strange_kind(file)
    if what and not (pipe and what == PIPE):
        raise UserError(flag, str(path), f"is {what}, not a file or a folder")
    if not os.access(file, os.R_OK | (os.X_OK if file.is_dir() else 0)):
        raise UserError(flag, str(path), "may not be read (permission denied)")
    return file


def strange_kind(file: str | os.PathLike) -> str:
    """`a pipe`, `a socket` or `a device`, reading which may never end; empty for a file, a folder, or nothing."""
    try:
        mode = os.stat(file).st_mode
    except (OSError, ValueError):
        return ""
    return next((what for is_kind, what in KINDS.items() if is_kind(mode)), "")


def contents(file: Path) -> bytes:
    """All that a file holds.

    Raises:
        OSError: it can't be read, or is a pipe, a socket or a device, whose end may never come.
    """
    if what := strange_kind(file):
        raise OSError(errno.EINVAL, f"is {what}")
    return file.read_bytes()


def _instead(scheme: str, text: str) -> str:
    """What to do in place of giving an address."""
    if HUB.match(text):
        return "models of the hub are named ORG/NAME"
    known = {
        "file://": "leave out file://",
        "gs://": "mount the bucket (gcsfuse) and name the folder where it lies, or copy it",
        "s3://": "mount the bucket (mount-s3) and name the folder where it lies, or copy it",
    }
    return known.get(scheme.lower(), "mount or copy what lies there, and name the path")


def _refuse_broken_link(flag: str, text: str, file: Path) -> None:
    for one in (file, *file.parents):
        if one.is_symlink() and not one.exists():
            raise UserError(flag, text, f"{one} is a link to {os.readlink(one)}, which isn't there")
