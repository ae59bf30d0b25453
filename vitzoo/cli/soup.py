"""`vitzoo soup`."""

import argparse

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result
from vitzoo.spelling import shell_flag

TAKES_CONFIG = True
EXAMPLES = """\
The runs are trainings of one model from one start: other seeds, learning rates, augmentations. Choose the ingredients
of a greedy soup by data that is neither trained on nor reported: --greedy val/accuracy, val being an evaluator of the
first run.

examples:
  vitzoo soup runs/seed0 runs/seed1 runs/seed2 --output runs/soup
  vitzoo soup runs/rates/*/ --greedy val/accuracy --output runs/soup
  vitzoo eval --checkpoint runs/soup"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("checkpoints", nargs="+", metavar="CKPT", help="runs or checkpoints of one model")
    parser.add_argument("--output", required=True, metavar="DIR", help="a new run folder, with the mean as checkpoint")
    parser.add_argument("--greedy", default="", metavar="EVALUATOR/METRIC", help="take those that make the mean better")
    parser.add_argument("--weights", default="auto", choices=("auto", "ema", "raw"), help="which weights of each")
    parser.add_argument("--config.KEY", metavar="VALUE", help="change a setting of the evaluation", dest="_")


def run(args: argparse.Namespace) -> Result:
    """Writes the mean of several trainings' weights."""
    from vitzoo.evaluation.soup import soup

    values = soup(args.checkpoints, args.output, greedy=args.greedy, weights=args.weights, overrides=args.overrides)
    taken = [row["checkpoint"] for row in values["ingredients"] if row["taken"]]
    which = {row["checkpoint"]: row["weights"] for row in values["ingredients"]}
    print(f"averaged {len(taken)} of {len(values['ingredients'])}: {', '.join(taken)}")
    alike = len(set(which.values())) == 1
    print(f"weights  {which[taken[0]] if alike else ', '.join(f'{name} {one}' for name, one in which.items())}")
    if values["score"] is not None:
        print(f"soup     {args.greedy} {values['score']:.4f}")
    print(f"wrote    {args.output}")
    print(f"next     vitzoo eval {shell_flag('--checkpoint', args.output)}")
    return Result(values)
