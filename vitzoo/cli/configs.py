"""`vitzoo configs`."""

import argparse
import dataclasses

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result, table

TAKES_CONFIG = True
EXAMPLES = """\
examples:
  vitzoo configs
  vitzoo configs vit/imagenet:B/16
  vitzoo configs quickstart --config.optimizer.name=sgd
  vitzoo configs quickstart --config.evaluate.loss.name=objective --config.evaluate.loss.split=test"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("name", nargs="?", metavar="FILE|NAME[:ARG]", help="show this config's text and settings")
    parser.add_argument("--config.KEY", metavar="VALUE", help="change one setting", dest="_")


def run(args: argparse.Namespace) -> Result:
    """Lists the configs, or the settings of one."""
    return _names() if args.name is None else _settings(args)


def _names() -> Result:
    from vitzoo.config.files import argument_of, docstring, named_configs

    found = [(name, docstring(path).partition("\n")[0], argument_of(path)) for name, path in named_configs()]
    lines = table((name, summary) for name, summary, _ in found).splitlines()
    for line, (*_, argument) in zip(lines, found, strict=True):
        print(line, *([f"  {argument}"] if str(argument) else []), sep="\n")
    print("\n`vitzoo configs NAME[:ARG]` shows one with all its settings")
    listed = [{"name": name, "summary": summary, **dataclasses.asdict(arg)} for name, summary, arg in found]
    return Result({"configs": listed})


def _settings(args: argparse.Namespace) -> Result:
    from vitzoo.config import resolve
    from vitzoo.config.fields import rows
    from vitzoo.config.files import argument_of, docstring, find_config

    path = find_config(args.name)[0]
    about = docstring(path) if path.suffix == ".py" else ""
    resolved = resolve(args.name, overrides=args.overrides, complete=False)
    print(f"{about}\n" if about else "")
    if argument := str(argument_of(path)):
        print(f"argument: {argument}\n")
    settings = rows(resolved.values, resolved.sources)
    print("settings, each changed by --config.KEY=VALUE:\n")
    print(table((f"  {name}", value, f"({source})", help) for name, value, source, help in settings))
    listed = [{"name": name, "value": value, "source": source, "help": help} for name, value, source, help in settings]
    return Result({"config": args.name, "about": about, "settings": listed})
