"""`csv:FILE`: a table of records: image files, texts, labels and numbers side by side."""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo import spelling
from vitzoo.data.settings import Data
from vitzoo.data.sources import delimited
from vitzoo.data.sources.base import Table
from vitzoo.data.sources.fields import (
    FORMS,
    IMAGE_NAMES,
    LABEL_NAMES,
    asked_for,
    form_of,
    image_field,
    image_text,
    listed,
    stated_field,
    usual_field,
)
from vitzoo.data.sources.image_table import ImageFile, image_file, table_of_files
from vitzoo.data.sources.labels import number
from vitzoo.data.sources.records import Records
from vitzoo.data.sources.values import value_of
from vitzoo.data.splits import ALL, standard_split
from vitzoo.errors import UserError
from vitzoo.paths import expanded

SPLIT_COLUMNS = ("split", "set", "subset", "part", "partition")
LISTS = {"turns", "words", "tags", "choices"}
"""Fields that no cell can hold."""
WRITTEN = tuple(form for form in FORMS if not LISTS & {*form})
SEPARATOR = "|"  # between the labels of one image
YES, NO = {"1", "1.0", "true", "yes"}, {"0", "0.0", "false", "no", ""}
NUMBERED = re.compile(r"(label|class|category|tag)s?[ _]?\d+")
HEADER_HELP = "the first line names the columns: file,label and perhaps split; or text,label ..."


@dataclasses.dataclass(frozen=True)
class Row:
    """A row with cells by column, and where it stands."""

    where: str
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


class Rows:
    """The rows that were taken, by number."""

    def __init__(self, path: str, rows: Sequence[Row]):
        self.path, self.rows = path, rows

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self.rows[index].cells

    def where(self, index: int) -> str:
        return f"{self.path} {self.rows[index].where}"


def open_csv(data: Data, path: str) -> Table:
    """The examples that a CSV file lists, in the order of its rows; every image is decoded once.

    The file is as RFC 4180 has it; its separator, comma, semicolon or tab, is the one that the first row holds most
    often outside quotes. That row names the columns, and optionally one of them the split. With one for the file of an
    image (relative to the CSV's folder) there are images, with labels, texts or both; else there are the fields of
    text that JSON lines may hold, but for lists. An image has several labels where the label holds `a|b`, or where
    there are several label columns: of names, or (one column for each class) of 0 and 1.

    Raises:
        UserError: no such file or columns, a malformed row, one without a label, unreadable images (under
            `bad_files=stop`), a split called `all`, or a label in another split that train lacks.
    """
    file = expanded(path).absolute()
    header, rows = _read(file, data)
    split = _split_column(header, data)
    splits = [_split(row, split, data) if split else None for row in rows]
    image = _image_column(header, rows, data)
    if image is None:
        return _texts(file, [column for column in header if column != split], rows, splits, data)
    return _images(file, image, split, header, rows, splits, data)


def _texts(
    file: pathlib.Path, header: Sequence[str], rows: Sequence[Row], splits: Sequence[str | None], data: Data
) -> Table:
    records, taken = Records(data, WRITTEN, written=True), []
    for row, split in zip(rows, splits, strict=True):
        record = {column: row[column] for column in header}
        content = "\0".join(record.values()).encode("utf-8", "surrogatepass")
        if records.takes(functools.partial(dict, record), content, row.where, split, file.parent):
            taken.append(Row(row.where, record))
    return records.table(Rows(str(file), taken))


def _images(
    file: pathlib.Path,
    image: str,
    split: str | None,
    header: Sequence[str],
    rows: Sequence[Row],
    splits: Sequence[str | None],
    data: Data,
) -> Table:
    rest = [column for column in header if column not in (image, split)]
    marks = () if data.text_field or data.template else [column for column in rest if _is_binary(column, rows)]
    text = image_text([column for column in rest if column not in marks], data, "column")
    labels = _label_columns(header, rows, data, {image, split, text}, text is not None)
    one_column_a_class = len(labels) > 1 and all(_is_binary(column, rows) for column in labels)
    several = len(labels) > 1 or (bool(labels) and any(SEPARATOR in row[labels[0]] for row in rows))
    multi_label = several and not data.regression
    files: list[ImageFile] = []
    for row, part in zip(rows, splits, strict=True):
        if data.regression:
            named: tuple[Any, ...] = tuple(_number(row, column, data) for column in labels[:1])
        else:
            named = _marked(row, labels) if one_column_a_class else _named(row, labels, multi_label, data)
        texts = {} if text is None else {"text": value_of(row.cells, text)}
        files.append(image_file(row[image], file.parent, part or "", named, texts))
    return table_of_files(files, data, multi_label=multi_label)


def _read(file: pathlib.Path, data: Data) -> tuple[list[str], list[Row]]:
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
    records = [Row(row.where, dict(zip(header, row.cells, strict=True))) for row in lines[1:]]
    return [name for name in header if name], records


def _image_column(header: Sequence[str], rows: Sequence[Row], data: Data) -> str | None:
    """That of the images' files; None where the rows are of text."""
    record = {column: rows[0][column] for column in header}
    if (image := image_field(record, data, "column")) is not None:
        return image
    if {*asked_for(data)} - {"label_field"} or data.template or form_of(record, data, WRITTEN) is not None:
        return None
    if (image := usual_field(header, "image_field", IMAGE_NAMES, data, "column")) is not None:
        return image
    problem = "name a column, none of the usual names is there"
    raise UserError("data.image_field", None, f"{problem}; columns: {listed(header)}; {HEADER_HELP}")


def _split_column(header: Sequence[str], data: Data) -> str | None:
    found = [column for column in header if column.lower() in SPLIT_COLUMNS]
    if len(found) > 1:
        message = f"several columns fit for the split: {listed(found)}; keep one, and call the others something else"
        raise UserError("data.name", data.name, message)
    return found[0] if found else None


def _label_columns(
    header: Sequence[str], rows: Sequence[Row], data: Data, taken: set[str | None], has_text: bool
) -> list[str]:
    """Those named by `data.label_field`; else the usual one; else label1, label2 ...; else all others, if 0 and 1; of
    images with texts there may be none.
    """
    if data.label_field:
        return [stated_field(header, "label_field", data, "column", name) for name in data.label_field.split(",")]
    rest = [column for column in header if column not in taken]
    if (usual := usual_field(rest, "label_field", LABEL_NAMES, data, "column")) is not None:
        return [usual]
    numbered = [column for column in rest if NUMBERED.fullmatch(column.lower())]
    binary = [column for column in rest if _is_binary(column, rows)]
    if numbered or (binary and len(binary) == len(rest)):
        return numbered or binary
    if has_text:
        return []
    problem = "name a column, none of the usual names is there"
    raise UserError("data.label_field", None, f"{problem}; columns: {listed(rest)}; {HEADER_HELP}")


def _is_binary(column: str, rows: Sequence[Row]) -> bool:
    return all(row[column].strip().lower() in YES | NO for row in rows)


def _number(row: Row, column: str, data: Data) -> float:
    try:
        return number(row[column], written=True)
    except ValueError as error:
        raise UserError("data.name", data.name, f"{row.where}: {error}") from None


def _marked(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(column for column in columns if row[column].strip().lower() in YES)


def _named(row: Row, columns: Sequence[str], multi_label: bool, data: Data) -> tuple[str, ...]:
    """The labels as they are written."""
    if not columns:
        return ()
    cells = [row[column] for column in columns]
    if multi_label:
        cells = [label for cell in cells for label in cell.split(SEPARATOR)]
    labels = tuple(dict.fromkeys(cell for cell in cells if cell.strip()))
    if not labels and not multi_label:
        raise UserError("data.name", data.name, f"{row.where} has no label ({columns[0]} is empty)")
    return labels


def _split(row: Row, column: str, data: Data) -> str:
    name = spelling.normalise(row[column])
    if not name:
        raise UserError("data.name", data.name, f"{row.where} names no split")
    if name.lower() == ALL:
        right = "`all` is all splits together, so none of them can be called so: give it another name"
        raise UserError("data.name", data.name, f"{row.where} names the split {row[column]!r}; {right}")
    return standard_split(name) or name
