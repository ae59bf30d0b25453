"""`text:FILE|FOLDER` and `stdlib`: plain text files, UTF-8."""

import mmap
import os
import pathlib
import re
import sysconfig
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vitzoo.data import left_out
from vitzoo.data.duplicates import checksum
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table, kinds_of
from vitzoo.data.splits import carved, split_below, standard_split
from vitzoo.errors import UserError
from vitzoo.paths import expanded

LEAST_VALIDATION, LEAST_TRAIN = 0.1, 0.75  # of the share that was asked for, where a text is cut at a line's end
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


class MappedFiles:
    """Bytes of files by number; each file is mapped into memory when first read, in each process anew."""

    def __init__(self, paths: Sequence[str]):
        self.paths = paths
        self._maps: dict[int, mmap.mmap] = {}

    def read(self, file: int, start: int, stop: int) -> bytes:
        """Bytes `start` to `stop`; the file isn't empty."""
        mapped = self._maps.get(file)
        if mapped is None:
            with open(self.paths[file], "rb") as opened:
                mapped = self._maps.setdefault(file, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
        return mapped[start:stop]

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "_maps": {}}


class SpanReader:
    """Reads text i from its file."""

    def __init__(self, paths: Sequence[str], spans: np.ndarray):
        self.files, self.spans = MappedFiles(paths), spans

    def __call__(self, index: int) -> dict[str, str]:
        file, start, stop = self.spans[index].tolist()
        return {"text": self.files.read(file, start, stop).decode("utf-8")}

    def where(self, index: int) -> str:
        file, start, _ = self.spans[index].tolist()
        return f"{self.files.paths[file]}, byte {start}"


def open_text_files(data: Data, path: str) -> Table:
    """The texts of a file, or of a folder's files (those that match `data.files`, sorted by path, sub-folders too).

    Files and sub-folders of the folder itself called train, validation (val, dev) and test are those splits; then what
    else stands there is left out and named. Otherwise `data.validation_fraction` is held out: the end of a single text,
    cut at the nearest line's end (within a line where lines are too long), or some of several texts by a fixed
    permutation.

    Raises:
        UserError: nothing is there, a file isn't UTF-8 (under `data.bad_files=stop`), two names of one split, a split's
            name further below, or a split but train beside what is no split.
    """
    root = expanded(path).absolute()
    if root.is_file():
        return table_of_texts(data, [root], root.parent)
    if not root.is_dir():
        raise UserError("data.name", data.name, "no such file or folder")
    files = sorted(file for file in root.rglob(data.files) if file.is_file())
    if not files:
        raise UserError("data.name", data.name, f"holds no file {data.files}; data.files names others (*.md)")
    return table_of_texts(data, files, root, _stated_splits(data, files, root))


def open_standard_library(data: Data) -> Table:
    """The source of Python's standard library, in every Python: its .py files, sorted by path, without site-packages,
    tests and IDLE. Files that aren't UTF-8 are left out and counted.
    """
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    files = []
    for folder, inside, names in os.walk(root):
        inside[:] = [name for name in inside if name not in NOT_LIBRARY]
        files += [pathlib.Path(folder, name) for name in names if name.endswith(".py")]
    files.sort(key=lambda file: file.relative_to(root).parts)
    return table_of_texts(data, files, root, skip=True)


def table_of_texts(
    data: Data,
    files: Sequence[pathlib.Path],
    root: pathlib.Path,
    splits_of: Sequence[str | None] = (),
    *,
    skip: bool = False,
) -> Table:
    """Reads every file once; finds its texts and the splits.

    Args:
        files: below `root`.
        splits_of: the split of each file, None for those that aren't used; empty where vitzoo draws the splits.
        skip: leave out files that aren't UTF-8, whatever `data.bad_files` is.
    """
    spans: list[Span] = []
    sums: list[int] = []
    stated: list[str | None] = []  # of each text, where files state splits
    bad: list[str] = []
    for number, file in enumerate(files):
        if splits_of and splits_of[number] is None:
            continue
        content = _content(data, file)
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            bad.append(str(file.relative_to(root)))
            continue
        found = documents(content, data.document)
        spans += [Span(number, start, stop) for start, stop in found]
        sums += [checksum(content[start:stop]) for start, stop in found]
        stated += [splits_of[number]] * len(found) if splits_of else []
    notes = _bad_note(data, bad, skip)
    if not spans:
        raise UserError("data.name", data.name, "holds no text")
    rows, sums_array, splits, more = _splits(data, files, spans, sums, stated)
    more += _left_out_note(files, splits_of, root)
    reader = SpanReader([str(file) for file in files], rows)
    return Table(
        name=data.name, fields=kinds_of(("text",)), splits=splits, checksums=sums_array, read=reader,
        where=reader.where, notes=(*notes, *more),
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
        raise UserError("data.name", data.name, f"{file} can't be read: {error.strerror}") from None


def _split_name(path: pathlib.PurePath) -> str:
    """What may be called after a split: the outermost folder, or the file itself."""
    return path.parts[0] if len(path.parts) > 1 else path.stem


def _stated_splits(data: Data, files: Sequence[pathlib.Path], root: pathlib.Path) -> list[str | None]:
    """The split that each file of a folder is of, None for what is of none; nothing where no name states a split."""
    paths = [file.relative_to(root) for file in files]
    stated = [standard_split(_split_name(path)) for path in paths]
    below = dict.fromkeys(
        found for path, split in zip(paths, stated, strict=True) if (found := split_below(path, 1, split)) is not None
    )
    if below:
        first = next(iter(below))
        message = f"{_listed(sorted(map(str, below)))}: called as splits are, below the first level"
        remedy = f"if {first.parent} holds the splits, write --config.data.name=text:{root / first.parent}"
        raise UserError("data.name", data.name, f"{message}; {remedy}; rename what is no split")
    if not any(stated):
        return []
    named = {path.parts[0]: split for path, split in zip(paths, stated, strict=True)}
    there, others = (sorted(name for name, split in named.items() if bool(split) == is_one) for is_one in (True, False))
    for split in SPLITS:
        same = [name for name in there if named[name] == split]
        if len(same) > 1:
            raise UserError("data.name", data.name, f"{' and '.join(same)} are both {split}; leave one of them")
    if others and "train" not in stated:
        message = f"holds {_listed(there)}, called as splits are, and no train beside {_listed(others)}"
        raise UserError(
            "data.name", data.name, f"{message}: put the texts to train on into train/, or rename the others"
        )
    return stated


def _left_out_note(
    files: Sequence[pathlib.Path], splits_of: Sequence[str | None], root: pathlib.Path
) -> tuple[str, ...]:
    """A note of the files and folders that stand beside those of splits."""
    names = [file.relative_to(root).parts[0] for file in files]
    others = sorted({name for name, split in zip(names, splits_of, strict=False) if not split})
    there = sorted({name for name, split in zip(names, splits_of, strict=False) if split})
    return (f"warning: left out {_listed(others)}, beside {_listed(there)} and no split's name",) if others else ()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


def _splits(
    data: Data,
    files: Sequence[pathlib.Path],
    spans: list[Span],
    sums: list[int],
    stated: list[str | None],
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], tuple[str, ...]]:
    rows, sums_array = np.array(spans, np.int64), np.array(sums, np.uint64)
    if stated:
        of_split = {name: np.flatnonzero([one == name for one in stated]) for name in SPLITS if name in stated}
        return rows, sums_array, of_split, ()
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
    """At the line's end nearest to where validation should begin; between two characters where there is none or where,
    lines being long, either part would be far from the share that was asked for.
    """
    length = span.stop - span.start
    wanted = span.start + round(length * (1 - fraction))
    ends = (content.rfind(b"\n", span.start, wanted) + 1, content.find(b"\n", wanted, span.stop) + 1)
    near = [end for end in ends if span.start < end < span.stop and _is_fair((span.stop - end) / length, fraction)]
    if near:
        return min(near, key=lambda end: abs(end - wanted))
    while wanted < span.stop - 1 and content[wanted] & 0xC0 == 0x80:
        wanted += 1
    return min(max(wanted, span.start + 1), span.stop - 1)


def _is_fair(share: float, fraction: float) -> bool:
    """Whether validation has a tenth at least of the share that was asked for, and training three quarters of its."""
    return share >= LEAST_VALIDATION * fraction and 1 - share >= LEAST_TRAIN * (1 - fraction)


def _bad_note(data: Data, bad: list[str], skip: bool) -> tuple[str, ...]:
    if not bad:
        return ()
    shown = _listed(bad)
    if not skip and data.bad_files == "stop":
        raise UserError("data.name", data.name, f"not UTF-8 text: {shown} (data.bad_files=skip leaves them out)")
    for file in bad:
        left_out.name(f"{file}: not UTF-8 text")
    return (f"{len(bad):,} files left out, not UTF-8 text",)
