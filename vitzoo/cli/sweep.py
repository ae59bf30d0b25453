"""`vitzoo sweep`."""

import argparse
from typing import Any

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result, table
from vitzoo.errors import UserError
from vitzoo.paths import folder_of_checkpoints
from vitzoo.spelling import shell_flag

TAKES_CONFIG = True
SHOWN = 6  # metrics of a row
EXAMPLES = """\
Every combination of the values, 1,000 at most, is a run of its own, in a folder of --workdir. The same command again
trains what is left. Values that hold commas are parted by semicolons: --over "mesh=data:2,fsdp:2;data:4". The setting
`arg` is what stands behind the colon in the config's name.

examples:
  vitzoo sweep --config vit/finetune --workdir runs/rates --config.init_from=runs/s16 \\
    --config.data.name=folder:/photos --over optimizer.learning_rate=0.03,0.01,0.003,0.001
  vitzoo sweep --config quickstart --workdir runs/seeds --over seed=0,1,2 --over optimizer.learning_rate=1e-3,3e-3"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("--config", required=True, metavar="FILE|NAME[:ARG]", help="the experiment")
    parser.add_argument("--workdir", required=True, metavar="DIR", help="the folder for all runs")
    parser.add_argument(
        "--over", action="append", required=True, metavar="KEY=VALUE,VALUE", help="values of a setting; may be repeated"
    )
    parser.add_argument("--config.KEY", metavar="VALUE", help="change one setting of all runs", dest="_")
    parser.add_argument("--dry-run", action="store_true", help="check all configs, list the runs, stop")


def run(args: argparse.Namespace) -> Result:
    """Trains every combination and prints the table."""
    from vitzoo.training.grid import parse_axis, points

    workdir = folder_of_checkpoints("--workdir", args.workdir)
    axes: dict[str, list[str]] = {}
    for key, parts in map(parse_axis, args.over):
        if key in axes:
            raise UserError("--over", key, f"is given twice; write {key}={','.join([*axes[key], *parts])}")
        axes[key] = parts
    chosen = points(args.config, axes, args.overrides)
    if args.dry_run:
        from vitzoo.training.sweep import check_sweep

        check_sweep(chosen, workdir)
        names = [point.name for point in chosen]
        print("\n".join(names))
        return Result({"runs": names})
    from vitzoo.training.sweep import sweep

    values = sweep(chosen, workdir)
    print(f"\n{shown(values)}")
    left = len(chosen) - len(values["runs"])
    if left:
        print(f"{left} of {len(chosen)} runs are left; the same command goes on")
    if values["best"] is not None:
        print(f"best    {values['best']} by {values['metric']}")
        kept = any(run["name"] == values["best"] and run["best"] is not None for run in values["runs"])
        best = f"{workdir / values['best']}{'@best' * kept}"
        print(f"next    vitzoo eval {shell_flag('--checkpoint', best)}")
    return Result(values, values["exit_code"])


def shown(values: dict[str, Any]) -> str:
    """The table of a sweep: settings, what the runs are compared by, and the first of the other metrics."""
    runs, metric = values["runs"], values["metric"]
    if not runs:
        return ""
    settings = list(runs[0]["values"])
    names = dict.fromkeys(key for run in runs for key in run["metrics"] if not key.startswith("train/"))
    others = [key for key in names if key != metric and not key.endswith("/n")][:SHOWN]
    rows = [["", *settings, metric, *others]]
    for run in runs:
        score = run["best"] if run["best"] is not None else run["metrics"].get(metric)
        mark = "*" if run["name"] == values["best"] else ""
        told = [_number(run["metrics"].get(key)) for key in others]
        rows.append([mark, *run["values"].values(), run["error"] or _number(score), *told])
    return table(rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
