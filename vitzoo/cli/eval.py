"""`vitzoo eval`."""

import argparse

from vitzoo.cli.arguments import Parser, typed
from vitzoo.cli.output import Result
from vitzoo.errors import Refused

TAKES_CONFIG = True
EXAMPLES = """\
Without settings, the evaluators of the checkpoint's own run. With --config.data.split (and --config.data.name), that
data, which goes to RUN/eval/STEP-WEIGHTS/DATASET-SPLIT. Classes are matched by name; where the data have only some of
the model's, predictions are among those (--all-classes: among all).

examples:
  vitzoo eval --workdir runs/quickstart
  vitzoo eval --checkpoint runs/quickstart@best --config.data.name=mnist_5k --config.data.split=test
  vitzoo eval --checkpoint runs/photos --config.data.split=validation --predictions predictions.csv"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("--workdir", metavar="DIR", help="a run: its newest checkpoint")
    parser.add_argument("--checkpoint", metavar="CKPT", help="RUN, RUN@best, RUN@STEP or RUN/checkpoints/STEP")
    parser.add_argument("--config.KEY", metavar="VALUE", help="change one setting of the run's config", dest="_")
    parser.add_argument(
        "--weights", choices=("auto", "ema", "raw"), default="auto", help="auto: ema where there is one"
    )
    parser.add_argument(
        "--all-classes",
        action="store_true",
        help="predict among all of the model's classes, where the data have only some of them",
    )
    parser.add_argument(
        "--predictions",
        metavar="FILE",
        help="write each example's prediction, as .csv or .jsonl: file (or id), label ...",
    )
    parser.add_argument(
        "--shots", metavar="K", type=typed("--shots", int, minimum=0), help="solved examples before each question"
    )
    parser.add_argument("--output", metavar="DIR", help="for the tables and pictures; else a folder of the run")


def run(args: argparse.Namespace) -> Result:
    """Measures a checkpoint."""
    if bool(args.workdir) == bool(args.checkpoint):
        raise Refused("--checkpoint", args.checkpoint, "give either --checkpoint or --workdir")
    from vitzoo.evaluation.evaluate import evaluate

    return Result(
        evaluate(
            args.checkpoint or args.workdir,
            args.overrides,
            weights=args.weights,
            predictions=args.predictions,
            output=args.output,
            all_classes=args.all_classes,
            shots=args.shots,
        )
    )
