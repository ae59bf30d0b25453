"""What commands print: aligned tables for people, one line of JSON for programs."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vitzoo.schema import to_json


@dataclasses.dataclass(frozen=True)
class Result:
    """How a command ended: what `--json` prints, and the exit code."""

    values: Mapping[str, Any]
    exit_code: int = 0


def one_line(error: BaseException) -> str:
    """What an exception says, in one line that moves no terminal's cursor: `\\x1b` for an escape."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def last_line(values: Mapping[str, Any]) -> str:
    """One line of strict JSON: numbers that are not finite are null."""
    return json.dumps(_finite(to_json(values)), allow_nan=False, default=str).replace("\x7f", "\\u007f")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows as aligned columns; those listed in `right` are flush right, and a line's end within a cell is `\\n`."""
    rows = [[text.replace("\n", "\\n") for text in row] for row in rows]
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.rjust(w) if i in right else text.ljust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
