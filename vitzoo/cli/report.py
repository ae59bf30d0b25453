"""`vitzoo report`."""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result, table
from vitzoo.errors import UserError
from vitzoo.paths import named_path

TAKES_CONFIG = False
EXAMPLES = """\
The page has the metrics, the settings that differ, the evaluations that `vitzoo eval` left in the runs, curves,
confusion matrices and sample predictions. It is one file that references nothing else.

examples:
  vitzoo report runs/a runs/b
  vitzoo report runs/rates/*/ --output rates.html"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("runs", nargs="+", metavar="DIR", help="runs to compare")
    parser.add_argument("--output", metavar="FILE", default="report.html", help="the page; by default report.html")


def run(args: argparse.Namespace) -> Result:
    """Writes the page, and prints its first table."""
    from vitzoo.evaluation.comparison import metrics_table, names_of, page, read_run
    from vitzoo.outputs import checked_file, there, write_whole, wrote
    from vitzoo.overwriting import Reads
    from vitzoo.training import curves, metrics

    folders = _folders(args.runs)
    output = checked_file("--output", args.output, (".html",), Reads(folders))
    before = there(output)
    runs = []
    for folder, name in zip(folders, names_of(folders), strict=True):
        metrics.warn_of_damage(folder, "left out", cut=True)
        lines = metrics.read(folder)
        runs.append(read_run(folder, name, curves.collect(lines), curves.last(lines), curves.weights(lines)))
    content = page(runs).encode("utf-8", "backslashreplace")
    write_whole(output, functools.partial(Path.write_bytes, data=content))
    header, rows = metrics_table(runs)
    if not args.json:
        print(table([header, *([_shown(value) for value in row] for row in rows)], right=range(1, len(header))))
        print(wrote(output, before))
    told = {name: dict(zip(header[1:], values, strict=True)) for name, *values in rows}
    return Result({"output": str(output), "runs": told})


def _folders(names: Sequence[str]) -> list[Path]:
    """The runs' folders, each once.

    Raises:
        UserError: one is none, or there twice.
    """
    folders: list[Path] = []
    for name in names:
        folder = named_path("DIR", name)
        if not folder.is_dir():
            raise UserError("DIR", name, "is no folder; name runs, the folders that --workdir named")
        if folder.resolve() in [other.resolve() for other in folders]:
            raise UserError("DIR", name, "is given twice; name it once")
        folders.append(folder)
    return folders


def _shown(value: object) -> str:
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
