"""`vitzoo eval`."""

import argparse
from typing import TYPE_CHECKING

from vitzoo.cli.arguments import Parser, add_process_flags, runs_together, typed
from vitzoo.cli.output import Result, table
from vitzoo.errors import UserError

if TYPE_CHECKING:
    from vitzoo.evaluation.benchmarks.benchmark import Benchmark

TAKES_CONFIG = True
EXAMPLES = """\
Without settings, the evaluators of the checkpoint's own run. With --config.data.split (and --config.data.name), that
data, which goes to RUN/eval/STEP-WEIGHTS/DATASET-SPLIT. Classes are matched by name; where the data have only some of
the model's, predictions are among those (--all-classes: among all).

examples:
  vitzoo eval --workdir runs/quickstart
  vitzoo eval --checkpoint runs/quickstart@best --config.data.name=mnist_5k --config.data.split=test
  vitzoo eval --checkpoint runs/photos --config.data.split=validation --predictions predictions.csv
  vitzoo eval --checkpoint runs/vit --benchmark imagenet --benchmark imagenet-real --benchmark vtab
  vitzoo eval --checkpoint runs/vit --benchmark imagenet:knn --config.data.dir=/data
  vitzoo eval --list-benchmarks"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("--workdir", metavar="DIR", help="a run: its newest checkpoint")
    parser.add_argument("--checkpoint", metavar="CKPT", help="RUN, RUN@best, RUN@STEP or RUN/checkpoints/STEP")
    parser.add_argument("--config.KEY", metavar="VALUE", help="change one setting of the run's config", dest="_")
    parser.add_argument(
        "--benchmark",
        metavar="NAME",
        action="append",
        help="measure on a benchmark, or on each of a group; may be given several times. NAME:knn, NAME:few_shot, "
        "NAME:linear_probe: by the features of images, without the head; NAME:calibration",
    )
    parser.add_argument("--list-benchmarks", action="store_true", help="list the benchmarks, and stop")
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
    add_process_flags(parser)


@runs_together(preemption=False)
def run(args: argparse.Namespace) -> Result:
    """Measures a checkpoint."""
    if args.list_benchmarks:
        return _listed(args)
    if bool(args.workdir) == bool(args.checkpoint):
        raise UserError("--checkpoint", args.checkpoint, "give either --checkpoint or --workdir")
    if args.benchmark:
        return _benchmarks(args)
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


def _benchmarks(args: argparse.Namespace) -> Result:
    for flag, value in (("--predictions", args.predictions), ("--all-classes", args.all_classes or None)):
        if value:
            raise UserError(flag, args.predictions if flag == "--predictions" else None, "doesn't go with --benchmark")
    from vitzoo.evaluation.benchmarks.evaluate import evaluate_benchmarks

    return Result(
        evaluate_benchmarks(
            args.checkpoint or args.workdir,
            args.benchmark,
            args.overrides,
            weights=args.weights,
            output=args.output,
            shots=args.shots,
        )
    )


def _listed(args: argparse.Namespace) -> Result:
    from vitzoo.evaluation.benchmarks.table import BENCHMARKS, asked_for

    rows = asked_for(args.benchmark) if args.benchmark else list(BENCHMARKS.values())
    if not args.json:
        print(_list(rows))
    return Result({"benchmarks": [row.to_json() for row in rows]})


def _list(rows: "list[Benchmark]") -> str:
    """Benchmarks as a table, where the expected scores are from, and what can't be fetched by a command."""
    lines = [["benchmark", "dataset", "split", "evaluator", "metric", "expected"]]
    of: dict[str, list[str]] = {}
    for row in rows:
        known, unit = row.expected, f" {row.unit}" if row.unit else ""
        score = "" if known is None else f"{known.score:.2f}"
        lines.append([row.name, row.prepared or "your own", row.split, row.evaluator, row.metric + unit, score])
        if known is not None:
            of.setdefault(f"{known.checkpoint}; {known.source}", []).append(row.name)
    told = [f"expected  {', '.join(names)}: {whose}" for whose, names in of.items()]
    by_hand = [f"by hand   {row.name}: {row.by_hand}" for row in rows if row.by_hand]
    return "\n".join([table(lines, right=(5,)), "", *told, *by_hand])
