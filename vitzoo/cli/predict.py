"""`vitzoo predict`."""

import argparse
import sys

from vitzoo.cli.arguments import Parser, set_platform, typed
from vitzoo.cli.output import Result
from vitzoo.errors import UserError
from vitzoo.outputs import checked_file, there
from vitzoo.overwriting import Reads

TAKES_CONFIG = False
EXAMPLES = """\
An image that can't be read is named with the reason, the others go on, and the exit code is 1.
What is said of text depends on the checkpoint: classes, a number, classes of words, the tokens that [MASK] hides, or
the token that comes next.

examples:
  vitzoo predict --checkpoint runs/quickstart photo.png
  vitzoo predict --checkpoint runs/photos@best folder/ more.jpg --top 3 --output predictions.csv
  vitzoo predict --checkpoint runs/photos folder/ --features features.npz
  vitzoo predict --checkpoint runs/spam --text "win money" --text "see you at noon"
  vitzoo predict --checkpoint runs/spam --input mails.jsonl --output predictions.csv
  vitzoo predict --checkpoint runs/bert --text "once [MASK] a time" --top 3
  vitzoo predict --checkpoint runs/bert --similar "a cat" "a dog" "a boat"
"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("inputs", nargs="*", metavar="FILE|FOLDER", help="images, or folders of them at any depth")
    parser.add_argument("--text", action="append", default=[], metavar="TEXT", help="can be given several times")
    parser.add_argument(
        "--input", metavar="FILE", help="texts, a line each (-: of standard input), or .jsonl with training's fields"
    )
    parser.add_argument("--similar", nargs="+", metavar="TEXT", help="the cosine between texts' sentence embeddings")
    parser.add_argument("--checkpoint", required=True, metavar="CKPT", help="RUN, RUN@best, RUN@STEP ...")
    parser.add_argument("--top", metavar="K", type=typed("--top", int, minimum=1), help="classes or tokens listed (5)")
    parser.add_argument("--output", metavar="FILE", help="write the predictions to a .csv or .jsonl file")
    parser.add_argument("--features", metavar="FILE.npz", help="write what the head sees, of texts their embedding")
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
    """Classifies images, or says of texts what the checkpoint can."""
    set_platform([f"platform={args.platform}"])
    _check(args)
    if args.similar is not None:
        return _similar(args)
    from vitzoo.data.text.user_texts import read_texts
    from vitzoo.inference.predict import predict
    from vitzoo.inference.writers import exit_code, say_rows, say_written

    if args.output is not None:
        checked_file("--output", args.output, (".csv", ".jsonl"), Reads([args.input]))
    texts = [*args.text, *(read_texts(args.input) if args.input else [])]
    before = there(args.output, args.features)
    rows = predict(
        args.checkpoint,
        texts or args.inputs,
        top=args.top,
        batch_size=args.batch_size,
        weights=args.weights,
        output=args.output,
        features=args.features,
        platform=args.platform,
        out=sys.stdout,
        given="texts" if texts else "arguments",
    )
    if not args.json:  # of a file's rows only those without an answer
        say_rows(rows if args.output is None else [row for row in rows if row["error"] is not None])
    say_written(rows, args.output, args.features, before=before)
    return Result({"checkpoint": args.checkpoint, "predictions": rows}, exit_code(rows))


def _check(args: argparse.Namespace) -> None:
    """Refuses nothing to predict, and kinds of it that don't go together."""
    given = {"inputs": args.inputs, "--text": args.text, "--input": args.input, "--similar": args.similar}
    kinds = [name for name, value in given.items() if value]
    if not kinds:
        message = "there are none; name images or folders, or give text: --text TEXT, --input FILE, --similar TEXT TEXT"
        raise UserError("inputs", None, message)
    if len(kinds) > 1 and kinds != ["--text", "--input"]:
        raise UserError(kinds[1], None, f"doesn't go together with {kinds[0]}")
    if args.similar is not None and len(args.similar) < 2:
        raise UserError("--similar", args.similar[0], "takes two texts or more")
    for flag in ("output", "features", "top"):
        if args.similar is not None and getattr(args, flag) is not None:
            raise UserError(f"--{flag}", getattr(args, flag), "has no effect with --similar")


def _similar(args: argparse.Namespace) -> Result:
    from vitzoo.inference.predict import similar
    from vitzoo.inference.writers import say_similar

    values = similar(args.checkpoint, args.similar, weights=args.weights, platform=args.platform, out=sys.stdout)
    if not args.json:
        say_similar(args.similar, values)
    return Result({"checkpoint": args.checkpoint, "texts": args.similar, "similarity": values})
