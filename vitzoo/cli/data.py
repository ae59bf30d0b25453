"""`vitzoo data`."""

import argparse
from typing import Any

from vitzoo.cli.arguments import Parser, typed
from vitzoo.cli.output import Result
from vitzoo.errors import UserError
from vitzoo.outputs import there, wrote
from vitzoo.paths import named_path
from vitzoo.spelling import nearest

TAKES_CONFIG = True
ACTIONS = {
    "prepare": ("dir", "bad_files", "shards", "split", "output"),
    "check": ("dir", "bad_files", "split"),
    "show": ("dir", "bad_files", "split", "count", "output"),
}
"""The flags of each action."""
OF_DATA = ("validation_fraction", "image_key", "label_key", "image_column", "label_column")
"""Fields of the data section that say what is read, besides those that are flags here."""
EXAMPLES = """\
prepare  write images once as ArrayRecord, which reads fast: TFDS's, or folder:PATH and csv:FILE of any size;
         of text, train a tokenizer (--config.tokenizer.kind=bpe, unigram or wordpiece) and write it to --output
check    read every example; count classes and sizes; name what can't be read, and end with 1 if training would stop
show     some examples with their labels: a picture, or of text as it is

examples:
  vitzoo data prepare imagenet2012 --dir /data
  vitzoo data prepare folder:/photos --shards 64 --dir /data
  vitzoo data check csv:/photos/labels.csv --config.data.label_column=species
  vitzoo data show fashion_mnist --split test --output examples.png
  vitzoo data check jsonl:reviews.jsonl
  vitzoo data prepare text:book.txt --output my-tokenizer --config.tokenizer.kind=bpe \\
    --config.tokenizer.vocabulary_size=4000"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("action", metavar="prepare|check|show")
    parser.add_argument("name", metavar="NAME", help="as data.name: a TFDS name, folder:PATH, csv:FILE, text:FILE ...")
    parser.add_argument("--dir", metavar="DIR", help="of prepared data; else $TFDS_DATA_DIR or ~/tensorflow_datasets")
    parser.add_argument("--bad-files", metavar="stop|skip", help="an unreadable image stops, or is left out (stop)")
    parser.add_argument("--shards", metavar="N", type=typed("--shards", int, minimum=1), help="files for each split")
    parser.add_argument("--split", metavar="SPLIT", help="which examples (check: all; else train)")
    parser.add_argument(
        "--count", metavar="N", type=typed("--count", int, minimum=1), help="how many to show (64; of text 5)"
    )
    parser.add_argument(
        "--output", metavar="FILE.png|DIR", help="the picture's file (examples.png); the tokenizer's folder"
    )
    parser.add_argument(
        "--config.data.KEY",
        metavar="VALUE",
        help=f"another setting of the data section: {', '.join(OF_DATA)}",
        dest="_",
    )
    parser.add_argument(
        "--config.text.KEY, --config.tokenizer.KEY",
        metavar="VALUE",
        help="settings of these sections, of text",
        dest="_",
    )
    parser.by_action = ACTIONS


def run(args: argparse.Namespace) -> Result:
    """Prepares, checks or shows a dataset."""
    from vitzoo.cli.data_text import run_text
    from vitzoo.data.effect import kind_of, without_effect
    from vitzoo.data.text.check import is_text

    if args.action not in ACTIONS:
        raise UserError("action", args.action, nearest(args.action, ACTIONS))
    given = {name for names in ACTIONS.values() for name in names if getattr(args, name) is not None}
    for name in sorted(given - set(ACTIONS[args.action])):
        raise UserError(_flag(name), getattr(args, name), f"is no flag of `vitzoo data {args.action}`")
    if args.dir is not None:
        named_path("--dir", args.dir)
    text = is_text(args.name)
    reads = args.dir is not None and (text or args.action != "prepare")  # else images are written there
    if reads and (why := without_effect("data.dir", [kind_of(args.name, text=text)])):
        raise UserError("--dir", args.dir, why)
    if text:
        return run_text(args, {name: getattr(args, name) for name in given})
    if args.action == "prepare":
        for name in sorted(given & {"split", "output"}):
            raise UserError(
                _flag(name), getattr(args, name), "is for a tokenizer; images are written to --dir, all splits"
            )
    settings = _settings(args)
    for name in sorted(given & set(settings)):
        raise UserError(f"--config.data.{name}", settings[name], f"is given besides {_flag(name)}; keep one of them")
    action = {"prepare": _prepare, "check": _check, "show": _show}[args.action]
    return action(args, {**settings, **{name: getattr(args, name) for name in given}})


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of the data section given as `--config.data.KEY=VALUE`."""
    from vitzoo.config.resolution import nested
    from vitzoo.data.effect import first_without_effect, kind_of
    from vitzoo.data.settings import Data
    from vitzoo.schema import annotations, convert_fields

    overrides, command = nested(args.overrides), f"vitzoo data {args.action}"
    for key in set(overrides) - {"data"}:
        raise UserError(f"--config.{key}", None, "`vitzoo data` takes settings of the data section only")
    settings = convert_fields(Data, overrides.get("data", {}), "data")
    if "name" in settings:
        raise UserError("--config.data.name", settings["name"], f"the dataset is named without a flag: {command} NAME")
    known = {*OF_DATA, *(set(ACTIONS[args.action]) & set(annotations(Data)))}
    for key in sorted(set(settings) - known):
        raise UserError(f"--config.data.{key}", settings[key], f"has no effect in `{command}`")
    field, why = first_without_effect("data", settings, [kind_of(args.name, text=False)])
    if why:
        raise UserError(f"--config.data.{field}", settings[field], why)
    return settings


def _prepare(args: argparse.Namespace, settings: dict[str, Any]) -> Result:
    from vitzoo.data.prepare import prepare, torn_note, training_command

    prepared = prepare(args.name, **settings)
    for note in prepared.notes:
        print(note)
    print(f"prepared {prepared.folder}")
    if command := training_command(prepared, settings.get("dir", "")):
        for note in torn_note(prepared, settings.get("dir", "")):
            print(note)
        print(f"next     {command}")
    return Result({"dataset": args.name, "name": prepared.name, "folder": str(prepared.folder)})


def _check(args: argparse.Namespace, settings: dict[str, Any]) -> Result:
    from vitzoo.cli.data_check import say_check
    from vitzoo.data.check import check

    found, stops = check(args.name, **settings), settings.get("bad_files", "stop") == "stop"
    say_check(found, stops)
    return Result(found, 1 if found["unreadable"] and stops else 0)


def _show(args: argparse.Namespace, settings: dict[str, Any]) -> Result:
    from vitzoo.data.show import show

    output = settings.pop("output", "examples.png")
    before = there(output)
    file = show(args.name, output, **settings)
    print(wrote(file, {str(file)} if before else ()))
    return Result({"dataset": args.name, "file": str(file)})
