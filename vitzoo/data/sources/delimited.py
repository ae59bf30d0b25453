"""Delimited text as RFC 4180 has it: a cell with a separator, a quote or a line's end in it stands in double quotes, a
quote in such a cell is doubled, and nothing else is between a closing quote and the separator.
"""

import dataclasses
import re
from collections.abc import Iterator

SEPARATORS = ",;\t"
LONGEST = 131_072  # characters of a cell, as in Python's csv; a longer one is most probably a quote that isn't closed
_PIECE = re.compile(r'"[^"]*+"?|[^"\r\n]++|[\r\n]')  # within quotes, outside, and where a line ends
_UNQUOTED = re.compile(r'[^"\r\n]*+(?P<end>\r\n|\r|\n|\Z)')
_SHOWN = 30  # characters of a cell in a message


@dataclasses.dataclass(frozen=True)
class Row:
    """A row as it stands in a file: its number from 1, counted as spreadsheets do, and the line it begins in."""

    number: int
    line: int
    cells: tuple[str, ...]

    @property
    def where(self) -> str:
        """`row 3`, and the line too where it is another one."""
        return place(self.number, self.line)


class Malformed(ValueError):
    """A row that is none; its text says which, and what is wrong there."""


def place(number: int, line: int) -> str:
    """A row in words."""
    return f"row {number}" if number == line else f"row {number} (line {line})"


def separator_of(text: str) -> str:
    """The one of comma, semicolon and tab that the first line holds most often outside quotes; comma without any."""
    counts = dict.fromkeys(SEPARATORS, 0)
    for found in _PIECE.finditer(text):
        if found[0] in "\r\n":
            break
        if not found[0].startswith('"'):
            counts = {separator: count + found[0].count(separator) for separator, count in counts.items()}
    return max(counts, key=counts.__getitem__)


def rows(text: str, separator: str | None = None) -> Iterator[Row]:
    """The rows of a text, in time linear in its length. Lines end with LF, CR LF or CR; an empty line is a row of one
    empty cell.

    Args:
        text: the whole of it.
        separator: between the cells; None: `separator_of`.

    Raises:
        Malformed: a quote stands within a cell that has none around it, isn't closed, or is closed before the cell's
            end; or a cell is longer than 131,072 characters.
    """
    split = separator_of(text) if separator is None else separator
    # possessive, so that nothing is tried twice: a cell in quotes, or one without any, then what ends it
    cell = re.compile(
        rf'(?:"(?P<quoted>[^"]*+(?:""[^"]*+)*+)"|(?P<plain>[^"{split}\r\n]*+))(?P<end>{split}|\r\n|\r|\n|\Z)'
    )
    position, number, line = 0, 1, 1
    while position < len(text):
        if plain := _UNQUOTED.match(text, position):
            cells, end = text[position : plain.start("end")].split(split), plain.end()
        else:
            cells, end, more = [], position, True
            while more:
                found = cell.match(text, end)
                if found is None:
                    raise Malformed(f"{place(number, line)} {_fault(text, end, split)}")
                quoted = found["quoted"]
                cells.append(found["plain"] if quoted is None else quoted.replace('""', '"'))
                end, more = found.end(), found["end"] == split
        if too_long := next((content for content in cells if len(content) > LONGEST), None):
            message = f"has a cell of {len(too_long):,} characters, {_shown(too_long)}; at most {LONGEST:,} are taken"
            raise Malformed(f"{place(number, line)} {message}")
        yield Row(number, line, tuple(cells))
        number, line, position = number + 1, line + _line_ends(text, position, end), end


def _line_ends(text: str, start: int, stop: int) -> int:
    return sum(text.count(end, start, stop) for end in "\r\n") - text.count("\r\n", start, stop)


def _fault(text: str, position: int, separator: str) -> str:
    """What is wrong with the cell that begins at a position."""
    if text[position] != '"':
        end = re.compile(rf"[{separator}\r\n]|\Z").search(text, position)
        assert end is not None
        cell = text[position : end.start()]
        remedy = "put the cell in quotes, and write each quote within it twice"
        return f"holds a quote in a cell that doesn't begin with one, {_shown(cell)}; {remedy}"
    closed = re.compile(r'"(?:[^"]|"")*+"').match(text, position)
    if closed is None:
        return f"has a quote that is never closed, at {_shown(text[position:])}"
    after = text[closed.end() : closed.end() + _SHOWN]
    return f"has {_shown(after)} after the closing quote of a cell; a quote within a cell is written twice"


def _shown(text: str) -> str:
    """The beginning of a text, on one line."""
    first = re.split(r"[\r\n]", text[: _SHOWN + 1])[0][:_SHOWN]
    return first if first == text else f"{first}..."
