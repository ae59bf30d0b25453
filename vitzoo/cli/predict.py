"""`vitzoo predict`."""

import argparse
import sys

from vitzoo.cli.arguments import Parser, set_platform, typed
from vitzoo.cli.output import Result

TAKES_CONFIG = False
EXAMPLES = """\
An image that can't be read is named with the reason, the others go on, and the exit code is 1.

examples:
  vitzoo predict --checkpoint runs/quickstart photo.png
  vitzoo predict --checkpoint runs/photos@best folder/ more.jpg --top 3 --output predictions.csv
  vitzoo predict --checkpoint runs/photos folder/ --features features.npz"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("inputs", nargs="+", metavar="FILE|FOLDER", help="images, or folders of them at any depth")
    parser.add_argument("--checkpoint", required=True, metavar="CKPT", help="RUN, RUN@best, RUN@STEP ...")
    parser.add_argument("--top", metavar="K", type=typed("--top", int, minimum=1), help="classes listed (5)")
    parser.add_argument("--output", metavar="FILE", help="write the predictions to a .csv or .jsonl file")
    parser.add_argument("--features", metavar="FILE.npz", help="write what the head sees of each image")
    parser.add_argument(
        "--weights", choices=("auto", "ema", "raw"), default="auto", help="auto: ema where there is one"
    )
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=typed("--batch-size", int, minimum=1),
        default=64,
        help="computed at a time (64)",
    )
    parser.add_argument(
        "--platform", choices=("cpu", "gpu", "cuda", "rocm", "tpu"), default="", help="else the best there is"
    )


def run(args: argparse.Namespace) -> Result:
    """Classifies images."""
    set_platform([f"platform={args.platform}"])
    from vitzoo.inference.predict import exit_code, predict, say_rows, say_written

    rows = predict(
        args.checkpoint,
        args.inputs,
        top=args.top,
        batch_size=args.batch_size,
        weights=args.weights,
        output=args.output,
        features=args.features,
        platform=args.platform,
        out=sys.stdout,
    )
    if not args.json:
        say_rows(rows)
    say_written(rows, args.output, args.features)
    return Result({"checkpoint": args.checkpoint, "predictions": rows}, exit_code(rows))
