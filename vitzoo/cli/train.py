"""`vitzoo train`."""

import argparse
from pathlib import Path

from vitzoo.cli.arguments import Parser, add_process_flags, runs_together
from vitzoo.cli.output import Result
from vitzoo.errors import UserError
from vitzoo.paths import folder_of_checkpoints

TAKES_CONFIG = True
EXAMPLES = """\
Any setting of the config can be changed: --config.optimizer.learning_rate=3e-4
`vitzoo configs NAME` lists them. The same command again resumes a run; a finished run does nothing.

examples:
  vitzoo train --config quickstart --workdir runs/quickstart
  vitzoo train --config vit/imagenet:S/16 --workdir runs/s16 --config.data.dir=/data --dry-run
  vitzoo train --config vit/finetune --workdir runs/photos \\
    --config.init_from=runs/s16 --config.data.name=folder:/photos"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("--config", metavar="FILE|NAME[:ARG]", help="the experiment; left out: the one of --workdir")
    parser.add_argument("--workdir", metavar="DIR", help="the run's folder: config, metrics, checkpoints")
    parser.add_argument("--config.KEY", metavar="VALUE", help="change one setting", dest="_")
    parser.add_argument("--dry-run", action="store_true", help="check all, print settings, data and rules, stop")
    add_process_flags(parser)


@runs_together(preemption=True)
def run(args: argparse.Namespace) -> Result:
    """Trains, or shows what would be trained."""
    if args.workdir is None and not args.dry_run:
        raise UserError("--workdir", None, "must be given: the folder for the run's metrics and checkpoints")
    workdir = None if args.workdir is None else str(folder_of_checkpoints("--workdir", args.workdir))
    from vitzoo.config import resolve

    resolved = resolve(_config(args.config, workdir), overrides=args.overrides)
    for note in resolved.notes:
        print(f"config  {note}")
    if args.dry_run:
        from vitzoo.cli.dry_run import dry_run

        return dry_run(resolved, workdir)
    from vitzoo.training.loop import train

    assert workdir is not None
    result = train(resolved, workdir)
    return Result(result, result["exit_code"])


def _config(config: str | None, workdir: str | None) -> str | Path:
    if config:
        return config
    kept = Path(workdir or "") / "config.json"
    if not kept.is_file():
        raise UserError("--config", None, "must be given: a config file or a name that `vitzoo configs` lists")
    return kept
