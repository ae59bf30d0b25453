"""`vitzoo data`."""

import argparse
from typing import Any

from vitzoo.cli.arguments import Parser, typed
from vitzoo.cli.output import Result, table
from vitzoo.errors import Refused
from vitzoo.schema import nearest

TAKES_CONFIG = True
ACTIONS = {"prepare": ("shards", "dir", "bad_files"), "check": ("dir",), "show": ("dir", "split", "count", "output")}
EXAMPLES = """\
prepare  write the dataset once as ArrayRecord, which reads fast: TFDS's, or folder:PATH and csv:FILE of any size
check    decode every image; count classes and sizes; name what can't be read
show     a picture of some examples with their labels

examples:
  vitzoo data prepare imagenet2012 --dir /data
  vitzoo data prepare folder:/photos --shards 64 --dir /data
  vitzoo data check csv:/photos/labels.csv --config.data.label_column=species
  vitzoo data show fashion_mnist --split test --output examples.png"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("action", metavar="prepare|check|show")
    parser.add_argument("name", metavar="NAME", help="as data.name: a TFDS name, folder:PATH, csv:FILE, digits ...")
    parser.add_argument("--dir", metavar="DIR", help="of prepared data; else $TFDS_DATA_DIR or ~/tensorflow_datasets")
    parser.add_argument("--shards", metavar="N", type=typed("--shards", int, minimum=1), help="files for each split")
    parser.add_argument("--bad-files", metavar="stop|skip", help="an unreadable image stops, or is left out (stop)")
    parser.add_argument("--split", metavar="SPLIT", help="which examples to show (train)")
    parser.add_argument("--count", metavar="N", type=typed("--count", int, minimum=1), help="how many to show (64)")
    parser.add_argument("--output", metavar="FILE.png", help="the picture's file (examples.png)")
    parser.add_argument("--config.data.KEY", metavar="VALUE", help="another setting of the data section", dest="_")


def run(args: argparse.Namespace) -> Result:
    """Prepares, checks or shows a dataset."""
    if args.action not in ACTIONS:
        raise Refused("action", args.action, nearest(args.action, ACTIONS))
    given = {name for names in ACTIONS.values() for name in names if getattr(args, name) is not None}
    for name in sorted(given - set(ACTIONS[args.action])):
        raise Refused(f"--{name.replace('_', '-')}", getattr(args, name), f"is no flag of `vitzoo data {args.action}`")
    flags = {name: getattr(args, name) for name in given}
    action = {"prepare": _prepare, "check": _check, "show": _show}[args.action]
    return action(args, {**_settings(args), **flags})


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of the data section given as `--config.data.KEY=VALUE`."""
    from vitzoo.config.resolution import nested
    from vitzoo.data.settings import Data
    from vitzoo.schema import convert_fields

    overrides = nested(args.overrides)
    for key in set(overrides) - {"data"}:
        raise Refused(f"--config.{key}", None, "`vitzoo data` takes settings of the data section only")
    return convert_fields(Data, overrides.get("data", {}), "data")


def _prepare(args: argparse.Namespace, settings: dict[str, Any]) -> Result:
    from vitzoo.data.prepare import prepare

    folder = prepare(args.name, **settings)
    print(f"prepared {folder}")
    return Result({"dataset": args.name, "folder": str(folder)})


def _check(args: argparse.Namespace, settings: dict[str, Any]) -> Result:
    from vitzoo.data.prepare import check

    found = check(args.name, **settings)
    rows = [["split", "examples", "classes", "channels", "smallest", "largest", "unreadable"]]
    for split, counted in found["splits"].items():
        sizes = ["×".join(map(str, counted[size] or ())) or "-" for size in ("smallest", "largest")]
        classes = str(len(counted["class_counts"])) if counted["class_counts"] else "-"
        channels = str(counted["channels"])
        rows.append([split, f"{counted['n']:,}", classes, channels, *sizes, str(len(counted["bad"]))])
    print(table(rows, right=(1, 2, 3, 6)))
    for note in found["notes"]:
        print(note)
    for split, counted in found["splits"].items():
        for file, reason in counted["bad"]:
            print(f"{split}: {file}: {reason}")
    return Result(found)


def _show(args: argparse.Namespace, settings: dict[str, Any]) -> Result:
    from vitzoo.data.prepare import show

    file = show(args.name, settings.pop("output", "examples.png"), **settings)
    print(f"wrote {file}")
    return Result({"dataset": args.name, "file": str(file)})
