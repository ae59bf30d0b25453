"""`csv:FILE`: a table of image files and their labels."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence

from vitzoo import spelling
from vitzoo.data.settings import Data
from vitzoo.data.sources import delimited
from vitzoo.data.sources.base import Table
from vitzoo.data.sources.files import LabelledFile, standard_split, table_of_files
from vitzoo.data.splits import ALL
from vitzoo.errors import UserError
from vitzoo.paths import expanded

FILE_COLUMNS = (
    "file",
    "filename",
    "file_name",
    "filepath",
    "file_path",
    "path",
    "image",
    "image_path",
    "img",
    "image_file",
)
LABEL_COLUMNS = ("label", "class", "category", "target", "labels", "classes", "categories", "tags", "tag", "class_name")
SPLIT_COLUMNS = ("split", "set", "subset", "part", "partition")
SEPARATOR = "|"  # between the labels of one image
YES, NO = {"1", "1.0", "true", "yes"}, {"0", "0.0", "false", "no", ""}
SHOWN = 20  # columns that a message lists
HEADER_HELP = "the first line names the columns: file,label and perhaps split"


@dataclasses.dataclass(frozen=True)
class Record:
    """A row with cells by column, and where it stands."""

    where: str
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


def open_csv(data: Data, path: str) -> Table:
    """The images that a CSV file lists, every one decoded once, in the order of its rows.

    The file is as RFC 4180 has it; its separator, comma, semicolon or tab, is the one that the first row holds most
    often outside quotes. That row names the columns: one for the file (relative to the CSV's folder), one for the
    label, and optionally one for the split. An image has several labels where the label holds `a|b`, or where there are
    several label columns: of names, or (one column for each class) of 0 and 1.

    Raises:
        UserError: no such file or columns, a malformed row, one without a label, unreadable images (under
            `bad_files=stop`), a split called `all`, or a label in another split that train lacks.
    """
    file = expanded(path).absolute()
    header, rows = _read(file, data)
    image = _column(header, "image_field", data.image_field, FILE_COLUMNS)
    split = _split_column(header, data)
    labels = _label_fields(header, rows, data, taken={image, split})
    one_column_a_class = len(labels) > 1 and all(_is_binary(column, rows) for column in labels)
    multi_label = len(labels) > 1 or any(SEPARATOR in row[labels[0]] for row in rows)
    files = [
        LabelledFile(
            path=str(file.parent / expanded(name)),
            name=name,
            split=_split(row, split, data) if split else "",
            labels=_marked(row, labels) if one_column_a_class else _named(row, labels, multi_label, data),
        )
        for row in rows
        for name in [_file_name(row[image], file.parent)]
    ]
    return table_of_files(files, data, multi_label=multi_label)


def _read(file: pathlib.Path, data: Data) -> tuple[list[str], list[Record]]:
    """The columns that have names, and the rows; wholly empty rows are left out."""
    try:
        text = file.read_text(encoding="utf-8-sig")  # with the mark that spreadsheets put in front, or without
    except OSError as error:
        raise UserError("data.name", data.name, f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError("data.name", data.name, f"{file} is not UTF-8 text ({error.reason})") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UserError("data.name", data.name, f"{file} holds a NUL character in line {line}; it must be plain text")
    try:
        lines = [row for row in delimited.rows(text) if any(map(str.strip, row.cells))]
    except delimited.Malformed as error:
        raise UserError("data.name", data.name, str(error)) from None
    if len(lines) < 2:
        raise UserError("data.name", data.name, f"{file} has no rows; {HEADER_HELP}")
    header = [spelling.normalise(cell) for cell in lines[0].cells]
    for name, places in spelling.positions(header).items():
        if name and len(places) > 1:
            raise UserError("data.name", data.name, f"has {len(places)} columns called {name}; give each its own name")
    for row in lines[1:]:
        if len(row.cells) != len(header):
            raise UserError("data.name", data.name, f"{row.where} has {len(row.cells)} cells, the header {len(header)}")
    records = [Record(row.where, dict(zip(header, row.cells, strict=True))) for row in lines[1:]]
    return [name for name in header if name], records


def _column(header: Sequence[str], setting: str, asked: str, usual: Sequence[str]) -> str:
    if asked:
        column = spelling.normalise(asked)
        if column not in header:
            raise UserError(f"data.{setting}", asked, f"no such column; there are: {_listed(header)}")
        return column
    found = [column for column in header if column.lower() in usual]
    if len(found) != 1:
        problem = "several columns fit" if found else "none of the usual names is there"
        raise UserError(f"data.{setting}", None, f"name a column, {problem}; columns: {_listed(header)}; {HEADER_HELP}")
    return found[0]


def _split_column(header: Sequence[str], data: Data) -> str | None:
    found = [column for column in header if column.lower() in SPLIT_COLUMNS]
    if len(found) > 1:
        message = f"several columns fit for the split: {_listed(found)}; keep one, and call the others something else"
        raise UserError("data.name", data.name, message)
    return found[0] if found else None


def _label_fields(header: Sequence[str], rows: Sequence[Record], data: Data, taken: set) -> list[str]:
    """Those named by `data.label_field`; else the usual one; else label1, label2 ...; else all others, if 0 and 1."""
    if data.label_field:
        return [_column(header, "label_field", name, ()) for name in data.label_field.split(",")]
    rest = [column for column in header if column not in taken]
    if any(column.lower() in LABEL_COLUMNS for column in rest):
        return [_column(rest, "label_field", "", LABEL_COLUMNS)]
    numbered = [column for column in rest if re.fullmatch(r"(label|class|category|tag)s?[ _]?\d+", column.lower())]
    binary = [column for column in rest if _is_binary(column, rows)]
    if numbered or (binary and len(binary) == len(rest)):
        return numbered or binary
    return [_column(rest, "label_field", "", LABEL_COLUMNS)]


def _is_binary(column: str, rows: Sequence[Record]) -> bool:
    return all(row[column].strip().lower() in YES | NO for row in rows)


def _file_name(cell: str, folder: pathlib.Path) -> str:
    """A file as it is written where there is one of that name, which spaces may begin or end; else without these."""
    plain = cell.strip()
    return cell if cell != plain and plain and os.path.lexists(folder / expanded(cell)) else plain


def _marked(row: Record, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(column for column in columns if row[column].strip().lower() in YES)


def _named(row: Record, columns: Sequence[str], multi_label: bool, data: Data) -> tuple[str, ...]:
    """The labels as they are written."""
    cells = [row[column] for column in columns]
    if multi_label:
        cells = [label for cell in cells for label in cell.split(SEPARATOR)]
    labels = tuple(dict.fromkeys(cell for cell in cells if cell.strip()))
    if not labels and not multi_label:
        raise UserError("data.name", data.name, f"{row.where} has no label ({columns[0]} is empty)")
    return labels


def _split(row: Record, column: str, data: Data) -> str:
    name = spelling.normalise(row[column])
    if not name:
        raise UserError("data.name", data.name, f"{row.where} names no split")
    if name.lower() == ALL:
        right = "`all` is all splits together, so none of them can be called so: give it another name"
        raise UserError("data.name", data.name, f"{row.where} names the split {row[column]!r}; {right}")
    return standard_split(name) or name


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns[:SHOWN]) + (f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else "")
