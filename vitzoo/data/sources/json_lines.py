"""`jsonl:FILE|FOLDER`: one JSON object a line."""

import functools
import json
import pathlib
from collections.abc import Sequence

import numpy as np

from vitzoo import spelling
from vitzoo.data.file_tree import is_visible
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table
from vitzoo.data.sources.records import Record, Records
from vitzoo.data.sources.text_files import MappedFiles
from vitzoo.data.splits import standard_split
from vitzoo.errors import UserError
from vitzoo.paths import expanded
from vitzoo.strict_json import record_of

NAMED = 5  # files that a message lists
SUFFIXES = (".jsonl", ".ndjson", ".json")


def open_json_lines(data: Data, path: str) -> Table:
    """The records of a file, or of a folder's files called train.jsonl, validation.jsonl, test.jsonl.

    Fields are those that `data.*_field` names, else the usual ones, the same in every record: see `Source` for what
    they may be. A field that names the file of an image, relative to the folder of the JSON lines, makes it one of
    images. Classes are the labels of train, all text, all whole numbers or all booleans, sorted (as numbers where all
    are). Other labels are refused where they are named by `data.label_field`, or of images, else once something needs
    labels. A file alone is split by a fixed permutation of its records (`data.validation_fraction`), or of images as a
    folder of them is.

    Raises:
        UserError: nothing is there; a line isn't JSON, lacks a field or has one of a wrong type, an image can't be read
            (under `data.bad_files=stop`); a label of another split that train lacks.
    """
    records = Records(data)
    places: list[tuple[int, int, int, int]] = []
    try:
        files = _files(data, expanded(path).absolute())
        for number, (file, split) in enumerate(files.items()):
            start = 0
            with open(file, "rb") as opened:
                for line, content in enumerate(opened, 1):
                    read, where = functools.partial(record_of, content), f"{file.name}:{line}"
                    if content.strip() and records.takes(read, content.strip(), where, split, file.parent):
                        places.append((number, line, start, len(content)))
                    start += len(content)
    except OSError as error:
        raise UserError("data.name", data.name, f"{error.filename} can't be read: {error.strerror}") from None
    return records.table(JSONLines([str(file) for file in files], np.array(places, np.int64)))


class JSONLines:
    """Records by number, each read from its line; `places` [records, 4] has its file, line, first byte and length."""

    def __init__(self, paths: Sequence[str], places: np.ndarray):
        self.files, self.places = MappedFiles(paths), places

    def __getitem__(self, index: int) -> Record:
        file, _, start, length = self.places[index].tolist()
        return spelling.by_name(json.loads(self.files.read(file, start, start + length)))

    def where(self, index: int) -> str:
        file, line, _, _ = self.places[index].tolist()
        return f"{self.files.paths[file]}:{line}"


def _files(data: Data, root: pathlib.Path) -> dict[pathlib.Path, str | None]:
    """The files, and the split that each is called after."""
    if root.is_file():
        return {root: None}
    if not root.is_dir():
        raise UserError("data.name", data.name, "no such file or folder")
    there = [entry for entry in sorted(root.iterdir()) if is_visible(entry.name)]
    files = {one: standard_split(one.stem) for one in there if one.suffix.lower() in SUFFIXES}
    expected = "a folder must hold train.jsonl, validation.jsonl, test.jsonl, no others"
    if not files:
        raise UserError("data.name", data.name, expected)
    if others := [file.name for file, split in files.items() if split is None]:
        raise UserError("data.name", data.name, f"{', '.join(others[:NAMED])}: no split's name; {expected}")
    # a split that isn't read would be missed only when its numbers are compared
    if unread := [one.name for one in there if one not in files and standard_split(one.name.partition(".")[0])]:
        raise UserError("data.name", data.name, f"{', '.join(unread[:NAMED])}: no file of JSON lines; {expected}")
    for split in dict.fromkeys(files.values()):
        same = [file.name for file in files if files[file] == split]
        if len(same) > 1:
            raise UserError("data.name", data.name, f"{' and '.join(same)} are both {split}; leave one of them")
    return files
