"""`vitzoo report`."""

import argparse
import functools
from pathlib import Path

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result, table
from vitzoo.errors import Refused

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
    from vitzoo.evaluation.comparison.page import metrics_table, page
    from vitzoo.evaluation.comparison.runs import names_of, read_run
    from vitzoo.outputs import checked_file, there, write_whole, wrote
    from vitzoo.training import curves, metrics

    folders = [Path(folder).expanduser() for folder in args.runs]
    for folder in folders:
        if not folder.is_dir():
            raise Refused("DIR", str(folder), "is no folder; name runs, the folders that --workdir named")
    output = checked_file("--output", args.output, (".html",))
    before = there(output)
    runs = [
        read_run(folder, name, curves.collect(metrics.read(folder)))
        for folder, name in zip(folders, names_of(folders), strict=True)
    ]
    write_whole(output, functools.partial(Path.write_text, data=page(runs), encoding="utf-8"))
    header, rows = metrics_table(runs)
    if not args.json:
        print(table([header, *([_shown(value) for value in row] for row in rows)], right=range(1, len(header))))
        print(wrote(output, before))
    told = {name: dict(zip(header[1:], values, strict=True)) for name, *values in rows}
    return Result({"output": str(output), "runs": told})


def _shown(value: object) -> str:
    return "–" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
