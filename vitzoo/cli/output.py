"""What commands print: aligned tables for people, a checked dataset among them, and one line of JSON for programs."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vitzoo.schema import to_json
from vitzoo.streams import on_one_line


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
    rows = [list(map(on_one_line, row)) for row in rows]
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


EVERY = 20  # classes up to which each has its row
ENDS = 5  # of more, the smallest and the largest shown


def say_check(found: Mapping[str, Any], stops: bool) -> None:
    """Prints a checked dataset.

    Args:
        found: what `vitzoo.data.check.check` returns.
        stops: whether training stops at what can't be read.
    """
    text = any("bytes" in counted for counted in found["splits"].values())
    print((_texts if text else _images)(found["splits"]))
    if text:
        print(f"\nfields: {', '.join(found['fields'])}; lengths in characters")
    elif found["fields"] not in ([], ["image", "label"]):
        print(f"\nfields: {', '.join(found['fields'])}")
    if found["classes"]:
        print(f"\n{class_table(found['classes'], found['splits'])}")
    if not text:
        print()
    for note in found["notes"]:
        print(note)
    _say_unreadable(
        found["unreadable"],
        stops,
        f"every {'example' if text or 'image' not in found['fields'] else 'image'} can be read",
    )


def _say_unreadable(unreadable: Sequence[str], stops: bool, fine: str) -> None:
    if not unreadable:
        print(fine)
        return
    print("can't be read:", *(f"  {file}" for file in unreadable), sep="\n")
    if stops:
        print("training will stop: repair or remove them, or leave them out with --config.data.bad_files=skip")


def _texts(splits: Mapping[str, Any]) -> str:
    rows = [["split", "examples", "classes", "bytes", "shortest", "median", "longest", "empty"]]
    for split, counted in splits.items():
        lengths = [f"{counted[name]:,.0f}" for name in ("shortest", "median", "longest", "empty")]
        rows.append([split, f"{counted['n']:,}", _present(counted), f"{counted['bytes']:,}", *lengths])
    return table(rows, right=range(1, 8))


def _images(splits: Mapping[str, Any]) -> str:
    rows = [["split", "examples", "classes", "channels", "smallest", "largest"]]
    for split, counted in splits.items():
        sizes = ["×".join(map(str, counted[size] or ())) or "-" for size in ("smallest", "largest")]
        rows.append([split, f"{counted['n']:,}", _present(counted), str(counted["channels"] or "-"), *sizes])
    return table(rows, right=(1, 2, 3))


def _present(counted: Mapping[str, Any]) -> str:
    """How many classes have an example."""
    if counted.get("unlabelled"):
        return "unlabelled"
    return str(sum(count > 0 for count in counted["class_counts"].values()))


def class_table(classes: Sequence[str], splits: Mapping[str, Any]) -> str:
    """Examples of each class in each split; of many classes the smallest and the largest of the first split."""
    rows = [[name, *(part["class_counts"].get(name, 0) for part in splits.values())] for name in classes]
    title = "examples of each class:"
    if len(rows) > EVERY:
        rows.sort(key=lambda row: row[1])
        rows = [*rows[:ENDS], *rows[-ENDS:]]
        title = f"examples of the {ENDS} smallest and the {ENDS} largest of {len(classes):,} classes:"
    shown = [["class", *splits], *([name, *(f"{count:,}" for count in counts)] for name, *counts in rows)]
    return f"{title}\n{table(shown, right=range(1, len(splits) + 1))}"
