"""`vitzoo models`."""

import argparse

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result, table

TAKES_CONFIG = False
EXAMPLES = """\
examples:
  vitzoo models
  vitzoo models 'B/*' --json"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help="a model or variant: vit, B/*, */16")


def run(args: argparse.Namespace) -> Result:
    """Lists the variants."""
    from vitzoo.planning import models

    rows = models.table(args.pattern)
    if not args.json:
        header = ["model", "variant", "parameters", "of the body", "GFLOPs 224²", "GFLOPs 384²"]
        lines = [
            [
                row.name,
                row.variant,
                f"{row.parameters:,}",
                f"{row.body_parameters:,}",
                f"{row.gflops:,.1f}",
                f"{row.gflops_384:,.1f}",
            ]
            for row in rows
        ]
        print(table([header, *lines], right=(2, 3, 4, 5)))
        print("\nparameters: with class token and 1000 classes; of the body: without them, at 224²")
        print("GFLOPs: matrix products of the body for one image, multiply and add counted as two")
    return Result({"models": [row.to_json() for row in rows]})
