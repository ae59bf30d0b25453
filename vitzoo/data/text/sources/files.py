"""`text:FILE|FOLDER` and `stdlib`: plain text files, UTF-8."""

import os
import pathlib
import re
import sysconfig
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vitzoo.data import left_out
from vitzoo.data.settings import Data
from vitzoo.data.sources.files import standard_split
from vitzoo.data.text.settings import Text
from vitzoo.data.text.sources.base import TextTable, carved, checksum
from vitzoo.data.text.sources.mapped import MappedFiles
from vitzoo.errors import Refused
from vitzoo.paths import expanded

NAMED = 5  # bad files that a message lists
MARK = b"\xef\xbb\xbf"  # that some editors put in front
SPLITS: tuple[str, ...] = ("train", "validation", "test")
SEPARATORS = {"line": re.compile(rb"\r?\n"), "paragraph": re.compile(rb"(?:\r?\n[ \t]*){2,}")}
NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "idle_test", "idlelib", "__pycache__"}


class Span(NamedTuple):
    """A text: bytes `start` to `stop` of a file."""

    file: int
    start: int
    stop: int


class SpanReader:
    """Reads text i from its file."""

    def __init__(self, paths: Sequence[str], spans: np.ndarray):
        self.files, self.spans = MappedFiles(paths), spans

    def __call__(self, index: int) -> dict[str, Any]:
        file, start, stop = self.spans[index].tolist()
        return {"text": self.files.read(file, start, stop).decode("utf-8")}

    def where(self, index: int) -> str:
        file, start, _ = self.spans[index].tolist()
        return f"{self.files.paths[file]}, byte {start}"


def open_text_files(data: Data, path: str, text: Text) -> TextTable:
    """The texts of a file, or of a folder's files (those that match `text.files`, sorted by path, sub-folders too).

    Splits are files or sub-folders called train, validation (val, dev) and test. Otherwise `data.validation_fraction`
    is held out: the end of a single text, cut at a line's end, or some of several texts by a fixed permutation.

    Raises:
        Refused: nothing is there, or a file isn't UTF-8 (under `data.bad_files=stop`).
    """
    root = expanded(path).absolute()
    if root.is_file():
        return table_of_texts(data, [root], text.document, root.parent)
    if not root.is_dir():
        raise Refused("data.name", data.name, "no such file or folder")
    files = sorted(file for file in root.rglob(text.files) if file.is_file())
    if not files:
        raise Refused("data.name", data.name, f"holds no file {text.files}; text.files names others (*.md)")
    return table_of_texts(data, files, text.document, root)


def open_standard_library(data: Data, text: Text) -> TextTable:
    """The source of Python's standard library, in every Python: its .py files, sorted by path, without site-packages,
    tests and IDLE. Files that aren't UTF-8 are left out and counted.
    """
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    files = []
    for folder, inside, names in os.walk(root):
        inside[:] = [name for name in inside if name not in NOT_LIBRARY]
        files += [pathlib.Path(folder, name) for name in names if name.endswith(".py")]
    files.sort(key=lambda file: file.relative_to(root).parts)
    return table_of_texts(data, files, text.document, root, skip=True)


def table_of_texts(
    data: Data, files: Sequence[pathlib.Path], document: str, root: pathlib.Path, *, skip: bool = False
) -> TextTable:
    """Reads every file once; finds its texts and the splits."""
    spans: list[Span] = []
    sums: list[int] = []
    stated: list[str | None] = []
    bad: list[str] = []
    for number, file in enumerate(files):
        content = _content(data, file)
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            bad.append(str(file.relative_to(root)))
            continue
        found = documents(content, document)
        spans += [Span(number, start, stop) for start, stop in found]
        sums += [checksum(content[start:stop]) for start, stop in found]
        stated += [_stated_split(file.relative_to(root))] * len(found)
    notes = _bad_note(data, bad, skip)
    if not spans:
        raise Refused("data.name", data.name, "holds no text")
    rows, sums_array, splits, more = _splits(data, files, spans, sums, stated, root)
    reader = SpanReader([str(file) for file in files], rows)
    return TextTable(
        name=data.name, fields=("text",), splits=splits, checksums=sums_array, read=reader, where=reader.where,
        notes=(*notes, *more),
    )  # fmt: skip


def documents(content: bytes, document: str) -> list[tuple[int, int]]:
    """Where the texts of a file's content start and stop; empty ones (of spaces) are none."""
    first = len(MARK) if content.startswith(MARK) else 0
    if document == "file":
        return [(first, len(content))] if content[first:].strip() else []
    bounds, start = [], first
    for separator in SEPARATORS[document].finditer(content, first):
        bounds.append((start, separator.start()))
        start = separator.end()
    bounds.append((start, len(content)))
    return [(start, stop) for start, stop in bounds if content[start:stop].strip()]


def _content(data: Data, file: pathlib.Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Refused("data.name", data.name, f"{file} can't be read: {error.strerror}") from None


def _split_name(path: pathlib.Path) -> str:
    """What may be called after a split: the outermost folder, or the file itself."""
    return path.parts[0] if len(path.parts) > 1 else path.stem


def _stated_split(path: pathlib.Path) -> str | None:
    return standard_split(_split_name(path))


def _refuse_twice(data: Data, names: set[str]) -> None:
    """Refuses two names of one split, such as val and validation."""
    for split in SPLITS:
        same = sorted(name for name in names if standard_split(name) == split)
        if len(same) > 1:
            raise Refused("data.name", data.name, f"{' and '.join(same)} are both {split}; leave one of them")


def _splits(
    data: Data,
    files: Sequence[pathlib.Path],
    spans: list[Span],
    sums: list[int],
    stated: list[str | None],
    root: pathlib.Path,
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], tuple[str, ...]]:
    rows, sums_array = np.array(spans, np.int64), np.array(sums, np.uint64)
    names: list[str] = [name for name in SPLITS if name in stated]
    if "train" in names and len(names) > 1:
        _refuse_twice(data, {_split_name(file.relative_to(root)) for file in files})
        kept = {name: np.flatnonzero([s == name for s in stated]) for name in names}
        left = stated.count(None)
        notes: tuple[str, ...] = (f"{left:,} texts belong to no split and aren't used",) if left else ()
        return rows, sums_array, kept, notes
    if len(spans) > 1 or data.validation_fraction == 0:
        splits, notes = carved(sums_array, data.validation_fraction)
        return rows, sums_array, splits, notes
    content = files[spans[0].file].read_bytes()
    cut = _cut(content, spans[0], data.validation_fraction)
    parts = [(spans[0].start, cut), (cut, spans[0].stop)]
    rows = np.array([(spans[0].file, *part) for part in parts], np.int64)
    sums_array = np.array([checksum(content[start:stop]) for start, stop in parts], np.uint64)
    note = f"validation is the text's end, from byte {cut:,} of {len(content):,} on (data.validation_fraction)"
    return rows, sums_array, {"train": np.array([0]), "validation": np.array([1])}, (note,)


def _cut(content: bytes, span: Span, fraction: float) -> int:
    """After the last line that ends within the train share; where there is no line's end, between two characters."""
    wanted = span.start + round((span.stop - span.start) * (1 - fraction))
    line_end = content.rfind(b"\n", span.start, wanted) + 1
    if span.start < line_end < span.stop:
        return line_end
    while wanted < span.stop - 1 and content[wanted] & 0xC0 == 0x80:
        wanted += 1
    return min(max(wanted, span.start + 1), span.stop - 1)


def _bad_note(data: Data, bad: list[str], skip: bool) -> tuple[str, ...]:
    if not bad:
        return ()
    shown = ", ".join(bad[:NAMED]) + (f" and {len(bad) - NAMED:,} more" if len(bad) > NAMED else "")
    if not skip and data.bad_files == "stop":
        raise Refused("data.name", data.name, f"not UTF-8 text: {shown} (data.bad_files=skip leaves them out)")
    for file in bad:
        left_out.name(f"{file}: not UTF-8 text")
    return (f"{len(bad):,} files left out, not UTF-8 text",)
