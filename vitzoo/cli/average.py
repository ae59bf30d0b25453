"""`vitzoo average`."""

import argparse

from vitzoo.cli.arguments import Parser, typed
from vitzoo.cli.output import Result
from vitzoo.spelling import shell_flag

TAKES_CONFIG = False
EXAMPLES = """\
The run must have kept its checkpoints: train with --config.checkpoint.keep=5.

examples:
  vitzoo average --workdir runs/wmt --last 5 --output runs/wmt-average
  vitzoo eval --checkpoint runs/wmt-average"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("--workdir", required=True, metavar="RUN", help="a run's folder")
    parser.add_argument(
        "--last", required=True, metavar="N", type=typed("--last", int, minimum=2), help="how many checkpoints"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="a new run folder, with the mean as checkpoint")


def run(args: argparse.Namespace) -> Result:
    """Writes the mean of the last checkpoints."""
    from vitzoo.checkpoints.average import average

    steps = average(args.workdir, args.last, args.output)
    print(f"averaged steps {', '.join(map(str, steps))}, weights raw")
    print(f"wrote    {args.output}")
    print(f"next     vitzoo eval {shell_flag('--checkpoint', args.output)}")
    return Result({"steps": steps, "weights": "raw", "output": args.output})
